/* What a transport plugin gives to slipway-train: a table of C functions, found as the symbol
 * "slipway_transport_table". Plugins are built against one MPI each and loaded at run time, so that
 * the program itself links none. */
#ifndef SLIPWAY_TRAIN_TRANSPORT_ABI_H
#define SLIPWAY_TRAIN_TRANSPORT_ABI_H

#include <stddef.h>
#include <stdint.h>

#define SLIPWAY_TRANSPORT_ABI_VERSION 1u

#ifdef __cplusplus
extern "C" {
#endif

struct slipway_transport_world {
    int32_t rank;
    int32_t size;
    int32_t local_rank; /* among the ranks that share memory with this one */
    int32_t local_size;
};

/* Functions return 0, or write what went wrong into `error` (of `error_size` bytes). All but abort
 * are collective. They may be called from different threads, never at the same time. */
struct slipway_transport {
    uint32_t abi_version; /* SLIPWAY_TRANSPORT_ABI_VERSION of the plugin */
    const char* name;     /* "openmpi", "mpich" */
    int (*init)(struct slipway_transport_world* world, char* error, size_t error_size);
    int (*all_reduce_f32)(float* values, size_t count, char* error, size_t error_size);
    int (*all_reduce_f64)(double* values, size_t count, char* error, size_t error_size);
    int (*broadcast)(void* data, size_t size_bytes, int32_t root, char* error, size_t error_size);
    int (*all_gather)(const void* mine, size_t size_bytes, void* out, char* error,
                      size_t error_size);
    int (*barrier)(char* error, size_t error_size);
    int (*finish)(char* error, size_t error_size);
    void (*abort)(int32_t exit_status);
};

/* The plugin's one symbol. */
const struct slipway_transport* slipway_transport_table(void);

#ifdef __cplusplus
}
#endif
#endif
