/* Attention of one new token per request over a paged cache: pages are read where they lie.
 *
 * A task is one request, or one KV head of it where there are few requests, with the query heads
 * that share it. It goes through the request's tokens twice: all scores, then all values. No other
 * request's length plays a part.
 */
#include "calls.h"
#include "vectors.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef uint16_t u16x16 __attribute__((vector_size(32)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));

enum { AHEAD = 12 }; /* tokens; their rows lie wherever their pages are */

/* 16 numbers of an fp32 or bf16 row; bf16 is the upper half of fp32. */
INLINE f32x16 load(int bf16, const char *row, long i) {
    f32x16 v;
    if (bf16) {
        u16x16 half;
        memcpy(&half, row + 2 * i, sizeof half);
        u32x16 bits = __builtin_convertvector(half, u32x16) << 16;
        memcpy(&v, &bits, sizeof v);
    } else {
        memcpy(&v, row + 4 * i, sizeof v);
    }
    return v;
}

INLINE float softmax(float *scores, long n) {
    float highest = scores[0], total = 0;
    for (long t = 1; t < n; t++) highest = scores[t] > highest ? scores[t] : highest;
    for (long t = 0; t < n; t++) total += scores[t] = expf(scores[t] - highest);
    return total;
}

/* Where the rows of a request's tokens begin, in bytes, counted from slot 0. */
INLINE void find_rows(const int32_t *pages, long n, long page_size, long stride, long *rows) {
    for (long t = 0; t < n; pages++)
        for (long i = 0; i < page_size && t < n; i++, t++)
            rows[t] = (*pages * page_size + i) * stride;
}

INLINE void fetch(const char *row, long bytes) {
    for (long i = 0; i < bytes; i += 64) __builtin_prefetch(row + i);
}

/* q: (kv_heads * group, dim) fp32; out: the same shape; k, v: slot 0 at the first of these heads;
 * rows: (n,), and AHEAD more that may be fetched; scores: (kv_heads * group, n). */
INLINE void attend(int bf16, long dim, const float *q, const char *k, const char *v, const long *rows,
                   float *scores, float *out, long n, long kv_heads, long group, float scale) {
    long head_bytes = dim * (bf16 ? 2 : 4), heads = kv_heads * group;
    for (long t = 0; t < n; t++) {
        const char *row = k + rows[t];
        fetch(k + rows[t + AHEAD], kv_heads * head_bytes);
        for (long h = 0; h < kv_heads; h++, row += head_bytes)
            for (long g = h * group; g < (h + 1) * group; g++) {
                f32x16 acc = {0}, part;
                for (long i = 0; i < dim; i += 16) {
                    memcpy(&part, q + g * dim + i, sizeof part);
                    acc += part * load(bf16, row, i);
                }
                scores[g * n + t] = scale * sum(acc);
            }
    }
    for (long g = 0; g < heads; g++) {
        float total = softmax(scores + g * n, n);
        for (long t = 0; t < n; t++) scores[g * n + t] /= total;
    }
    memset(out, 0, sizeof(float) * heads * dim);
    for (long t = 0; t < n; t++) {
        const char *row = v + rows[t];
        fetch(v + rows[t + AHEAD], kv_heads * head_bytes);
        for (long h = 0; h < kv_heads; h++, row += head_bytes)
            for (long g = h * group; g < (h + 1) * group; g++)
                for (long i = 0; i < dim; i += 16) {
                    f32x16 acc;
                    memcpy(&acc, out + g * dim + i, sizeof acc);
                    acc += scores[g * n + t] * load(bf16, row, i);
                    memcpy(out + g * dim + i, &acc, sizeof acc);
                }
    }
}

/* q, out: (bs, heads, dim) fp32. k, v: (pages, P, kv_heads, dim), fp32 or bf16.
 * page_table: (bs, width) page ids; lengths: (bs,). dim is a multiple of 16.
 * Returns 0; or 1 + the number of the first request with a page outside [0, num_pages) or a length
 * outside [1, width * P], and then nothing was read or written; or -1 when there is no memory for the scores. */
static long attend_all(int bf16, const float *q, const char *k, const char *v, const int32_t *page_table,
                       const int32_t *lengths, float *out, long bs, long heads, long kv_heads, long dim,
                       long num_pages, long page_size, long width, float scale, int threads) {
    long group = heads / kv_heads, size = bf16 ? 2 : 4, failed = 0, longest = 0;
    for (long b = 0; b < bs; b++) {
        if (lengths[b] < 1 || lengths[b] > width * page_size) return b + 1;
        for (long p = 0; p < (lengths[b] + page_size - 1) / page_size; p++) {
            int32_t page = page_table[b * width + p];
            if (page < 0 || page >= num_pages) return b + 1;
        }
        longest = lengths[b] > longest ? lengths[b] : longest;
    }
    long together = bs < threads ? 1 : kv_heads; /* whose rows lie side by side */
#pragma omp parallel num_threads(threads)
    {
        float *scores = malloc(sizeof(float) * group * together * longest);
        long *rows = calloc(longest + AHEAD, sizeof(long));
        if (!scores || !rows) failed = -1;
#pragma omp for schedule(dynamic)
        for (long first = 0; first < bs * kv_heads; first += together) {
            if (!scores || !rows) continue;
            long b = first / kv_heads, h = first % kv_heads, n = lengths[b];
            long head = h * dim * size, at = (b * heads + h * group) * dim;
            find_rows(page_table + b * width, n, page_size, kv_heads * dim * size, rows);
#define ATTEND(BF16, DIM) \
    attend(BF16, DIM, q + at, k + head, v + head, rows, scores, out + at, n, together, group, scale)
            if (dim == 64 && !bf16) /* the compiler unrolls what it knows */
                ATTEND(0, 64);
            else if (dim == 64)
                ATTEND(1, 64);
            else
                ATTEND(bf16, dim);
        }
        free(scores);
        free(rows);
    }
    return failed;
}

int64_t decode_attention(const union arg *a) {
    return attend_all(a[0].n, a[1].p, a[2].p, a[3].p, a[4].p, a[5].p, a[6].p, a[7].n, a[8].n, a[9].n, a[10].n,
                      a[11].n, a[12].n, a[13].n, a[14].x, a[15].n);
}
