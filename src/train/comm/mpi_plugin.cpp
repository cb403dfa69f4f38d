// The transport over MPI, as a plugin; built once against each MPI (SLIPWAY_MPI_NAME says which).
// Must not: use anything of Slipway but the table's declaration, or let an exception out.
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include "comm/transport_abi.h"

namespace {

constexpr size_t kLargestPiece = size_t{1} << 28;  // counts are ints
constexpr int kTestsBeforeYield = 200;

int told(int status, const char* call, char* error, size_t error_size) {
    if (status == MPI_SUCCESS) return 0;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(status, text, &length);
    std::snprintf(error, error_size, "%s: %s", call, text);
    return 1;
}

// Blocking calls of MPICH spin without end, which starves the ranks that others wait for when a
// node has more ranks than CPUs. So: start the operation, test it, and yield the CPU between tests.
int wait_for(MPI_Request* request, const char* call, char* error, size_t error_size) {
    int done = 0;
    for (int tests = 0; !done; ++tests) {
        if (int failed = told(MPI_Test(request, &done, MPI_STATUS_IGNORE), call, error, error_size))
            return failed;
        if (!done && tests >= kTestsBeforeYield) sched_yield();
    }
    return 0;
}

int finish_call(int started, MPI_Request* request, const char* call, char* error,
                size_t error_size) {
    if (int failed = told(started, call, error, error_size)) return failed;
    return wait_for(request, call, error, error_size);
}

int init(slipway_transport_world* world, char* error, size_t error_size) {
    int provided = 0;
    if (int failed = told(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
                          "MPI_Init_thread", error, error_size))
        return failed;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (provided < MPI_THREAD_SERIALIZED) {
        std::snprintf(error, error_size, "this MPI has no MPI_THREAD_SERIALIZED");
        return 1;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world->size);
    MPI_Comm local = MPI_COMM_NULL;
    if (int failed = told(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world->rank,
                                              MPI_INFO_NULL, &local),
                          "MPI_Comm_split_type", error, error_size))
        return failed;
    MPI_Comm_rank(local, &world->local_rank);
    MPI_Comm_size(local, &world->local_size);
    MPI_Comm_free(&local);
    return 0;
}

template <typename T>
int all_reduce(T* values, size_t count, MPI_Datatype type, char* error, size_t error_size) {
    for (size_t first = 0; first < count; first += kLargestPiece) {
        MPI_Request request = MPI_REQUEST_NULL;
        const int piece = static_cast<int>(std::min(kLargestPiece, count - first));
        const int started = MPI_Iallreduce(MPI_IN_PLACE, values + first, piece, type, MPI_SUM,
                                           MPI_COMM_WORLD, &request);
        if (int failed = finish_call(started, &request, "MPI_Iallreduce", error, error_size))
            return failed;
    }
    return 0;
}

int all_reduce_f32(float* values, size_t count, char* error, size_t error_size) {
    return all_reduce(values, count, MPI_FLOAT, error, error_size);
}

int all_reduce_f64(double* values, size_t count, char* error, size_t error_size) {
    return all_reduce(values, count, MPI_DOUBLE, error, error_size);
}

int broadcast(void* data, size_t size_bytes, int32_t root, char* error, size_t error_size) {
    for (size_t first = 0; first < size_bytes; first += kLargestPiece) {
        MPI_Request request = MPI_REQUEST_NULL;
        const int piece = static_cast<int>(std::min(kLargestPiece, size_bytes - first));
        const int started = MPI_Ibcast(static_cast<char*>(data) + first, piece, MPI_BYTE, root,
                                       MPI_COMM_WORLD, &request);
        if (int failed = finish_call(started, &request, "MPI_Ibcast", error, error_size))
            return failed;
    }
    return 0;
}

int all_gather(const void* mine, size_t size_bytes, void* out, char* error, size_t error_size) {
    if (size_bytes > INT_MAX) {
        std::snprintf(error, error_size, "a piece to gather is larger than 2 GiB");
        return 1;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    const int count = static_cast<int>(size_bytes);
    const int started =
        MPI_Iallgather(mine, count, MPI_BYTE, out, count, MPI_BYTE, MPI_COMM_WORLD, &request);
    return finish_call(started, &request, "MPI_Iallgather", error, error_size);
}

int barrier(char* error, size_t error_size) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int started = MPI_Ibarrier(MPI_COMM_WORLD, &request);
    return finish_call(started, &request, "MPI_Ibarrier", error, error_size);
}

int finish(char* error, size_t error_size) {
    if (int failed = barrier(error, error_size)) return failed;
    return told(MPI_Finalize(), "MPI_Finalize", error, error_size);
}

void abort_job(int32_t exit_status) { MPI_Abort(MPI_COMM_WORLD, exit_status); }

const struct slipway_transport kTable = {
    SLIPWAY_TRANSPORT_ABI_VERSION,
    SLIPWAY_MPI_NAME,
    init,
    all_reduce_f32,
    all_reduce_f64,
    broadcast,
    all_gather,
    barrier,
    finish,
    abort_job,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const struct slipway_transport*
slipway_transport_table() {
    return &kTable;
}
