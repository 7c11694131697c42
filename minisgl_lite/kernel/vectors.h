/* 16 fp32 numbers at a time: one register, or two or four where those are narrower. */
#define INLINE static inline __attribute__((always_inline))

typedef float f32x16 __attribute__((vector_size(64)));

INLINE float sum(f32x16 v) {
    float total = 0;
    for (int i = 0; i < 16; i++) total += v[i];
    return total;
}
