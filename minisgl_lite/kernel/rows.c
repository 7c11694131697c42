/* What a layer does between its products, one token's row after another: norm, rotation, gating,
 * and the write into the pool.
 *
 * Each of them is little work. Written as half a dozen tensor operations each, they cost a step of
 * one token more time than its products did.
 */
#include "calls.h"
#include <math.h>
#include <string.h>

enum { WORTH_A_THREAD = 1 << 14 }; /* numbers; starting and joining threads takes some microseconds */

static long entry(const void *numbers, long i, int wide) {
    return wide ? ((const int64_t *)numbers)[i] : ((const int32_t *)numbers)[i];
}

/* y = x / sqrt(mean(x^2) + eps) * weight, per row of dim numbers. Where a residual is given, x is
 * added to it first, and the sum, which stays there, is what is normalised. */
static void normalise(const float *x, float *residual, const float *weight, float *y, long rows, long dim,
                      float eps, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (rows * dim > WORTH_A_THREAD)
    for (long r = 0; r < rows; r++) {
        const float *in = x + r * dim;
        float *out = y + r * dim, squares = 0;
        if (residual) {
            float *sums = residual + r * dim;
            for (long i = 0; i < dim; i++) sums[i] += in[i];
            in = sums;
        }
        for (long i = 0; i < dim; i++) squares += in[i] * in[i];
        float factor = 1 / sqrtf(squares / dim + eps);
        for (long i = 0; i < dim; i++) out[i] = in[i] * factor * weight[i];
    }
}

/* x: (rows, 2 * dim), gate before up; y: (rows, dim).
 * NOTE: exp is kept finite. Under -ffast-math a division is a guess at 1 / x, improved, and infinity
 * improves 0 to NaN. */
static void gate_rows(const float *x, float *y, long rows, long dim, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (rows * dim > WORTH_A_THREAD)
    for (long r = 0; r < rows; r++) {
        const float *gate = x + r * 2 * dim, *up = gate + dim;
        float *out = y + r * dim;
        for (long i = 0; i < dim; i++) {
            float g = gate[i] < -80 ? -80 : gate[i];
            out[i] = g / (1 + expf(-g)) * up[i];
        }
    }
}

/* x: (rows, heads, dim), rows `stride` numbers apart; y: the same, contiguous. table: (size, 2, dim),
 * cos, then sin with the sign that each half takes. Returns 0, or 1 + the first row whose position
 * is outside the table, and then nothing was written. */
static long turn(const float *x, const float *table, const void *positions, int wide, float *y, long rows,
                 long heads, long dim, long stride, long size, int threads) {
    for (long r = 0; r < rows; r++)
        if (entry(positions, r, wide) < 0 || entry(positions, r, wide) >= size) return r + 1;
#pragma omp parallel for num_threads(threads) schedule(static) if (rows * heads * dim > WORTH_A_THREAD)
    for (long r = 0; r < rows; r++) {
        const float *cos = table + entry(positions, r, wide) * 2 * dim, *sin = cos + dim;
        for (long h = 0; h < heads; h++) {
            const float *in = x + r * stride + h * dim;
            float *out = y + (r * heads + h) * dim;
            long half = dim / 2;
            for (long i = 0; i < half; i++) {
                out[i] = in[i] * cos[i] + in[i + half] * sin[i];
                out[i + half] = in[i + half] * cos[i + half] + in[i] * sin[i + half];
            }
        }
    }
    return 0;
}

/* x: (rows, width), rows `stride` numbers apart, rounded to bf16, a tie to the even one: the upper half
 * of what is half a unit larger. */
static void narrow(const float *x, uint16_t *y, long rows, long width, long stride, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (rows * width > WORTH_A_THREAD)
    for (long r = 0; r < rows; r++)
        for (long i = 0; i < width; i++) {
            uint32_t bits;
            memcpy(&bits, x + r * stride + i, sizeof bits);
            int is_nan = (bits & 0x7fffffff) > 0x7f800000;
            y[r * width + i] = is_nan ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        }
}

/* Row t of k and v, `bytes` long, to slot slots[t] of the caches. The rows of k and v are k_stride
 * and v_stride bytes apart. Returns 0, or 1 + the first t whose slot is outside [0, size), and then
 * nothing was written. */
static long scatter(char *k_cache, char *v_cache, const void *slots, int wide, const char *k, const char *v,
                    long rows, long bytes, long k_stride, long v_stride, long size) {
    for (long t = 0; t < rows; t++)
        if (entry(slots, t, wide) < 0 || entry(slots, t, wide) >= size) return t + 1;
    for (long t = 0; t < rows; t++) {
        memcpy(k_cache + entry(slots, t, wide) * bytes, k + t * k_stride, bytes);
        memcpy(v_cache + entry(slots, t, wide) * bytes, v + t * v_stride, bytes);
    }
    return 0;
}

int64_t rmsnorm(const union arg *a) {
    normalise(a[0].p, a[1].p, a[2].p, a[3].p, a[4].n, a[5].n, a[6].x, a[7].n);
    return 0;
}

int64_t silu_and_mul(const union arg *a) {
    gate_rows(a[0].p, a[1].p, a[2].n, a[3].n, a[4].n);
    return 0;
}

int64_t rotate(const union arg *a) {
    return turn(a[0].p, a[1].p, a[2].p, a[3].n, a[4].p, a[5].n, a[6].n, a[7].n, a[8].n, a[9].n, a[10].n);
}

int64_t to_bf16(const union arg *a) {
    narrow(a[0].p, a[1].p, a[2].n, a[3].n, a[4].n, a[5].n);
    return 0;
}

int64_t scatter_rows(const union arg *a) {
    return scatter(a[0].p, a[1].p, a[2].p, a[3].n, a[4].p, a[5].p, a[6].n, a[7].n, a[8].n, a[9].n, a[10].n);
}
