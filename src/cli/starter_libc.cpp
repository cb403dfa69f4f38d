// How the starter begins: the C library's own start without its questions to the processor. Knows:
// the order in which glibc 2.36 sets itself up in a static program. Must not: be linked with
// another version, or into a program that loads libraries.
//
// glibc asks the processor 68 times (CPUID) which of its memory functions is the fastest and how
// large the caches are. A virtual machine traps every question: 1.0 of the 1.2 ms that a static
// program without a line of its own took on the machine of docs/reference/benchmarks.md. Unasked,
// the functions for any x86-64 and the cache sizes for an unknown maker are taken, both glibc's own.
#include <features.h>

// The caller of main() in libc.a, csu/libc-start.c, is named by no header; what it calls is not
// either.
#if defined(__x86_64__) && defined(__GLIBC__) && __GLIBC__ == 2 && __GLIBC_MINOR__ == 36

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

using Main = int (*)(int, char**, char**);
using Initializer = void (*)(int, char**, char**);

extern "C" {

// Of glibc, in the order of their use.
extern void* __libc_stack_end;
void _dl_aux_init(ElfW(auxv_t) * auxiliary);
void __tunables_init(char** environment);
void __libc_setup_tls();
extern const std::uintptr_t* _dl_random;
void __libc_early_init(bool initial);
void __libc_init_first(int argc, char** argv, char** environment);
int __cxa_atexit(void (*function)(void*), void* argument, void* library);
void _init();
void _fini();

// Of the linker.
extern const ElfW(Rela) __rela_iplt_start[];
extern const ElfW(Rela) __rela_iplt_end[];
extern const Initializer __preinit_array_start[];
extern const Initializer __preinit_array_end[];
extern const Initializer __init_array_start[];
extern const Initializer __init_array_end[];
using Finisher = void (*)();
extern const Finisher __fini_array_start[];
extern const Finisher __fini_array_end[];

// What glibc's memory functions read; csu/libc-start.c defines them, so that it is not linked where
// these are. Sizes in bytes, of a processor whose maker glibc doesn't know.
long __x86_data_cache_size_half = 32 * 1024 / 2;
long __x86_data_cache_size = 32 * 1024;
long __x86_shared_cache_size_half = 1024 * 1024 / 2;
long __x86_shared_cache_size = 1024 * 1024;
long __x86_shared_non_temporal_threshold = 1024 * 1024 * 3 / 4;
long __x86_rep_movsb_threshold = 2048;
long __x86_rep_stosb_threshold = 2048;
long __x86_rep_movsb_stop_threshold = 1024 * 1024 * 3 / 4;
int __x86_string_control = 0;

/// Where the program lies, asked on behalf of libraries in $ORIGIN: none are loaded.
const char* _dl_get_origin() { return reinterpret_cast<const char*>(-1); }

static void finish(void*) {
    for (auto function = __fini_array_end; function != __fini_array_start;) (*--function)();
    _fini();
}

/// crt1.o's _start comes here. Never returns.
int __libc_start_main(Main main, int argc, char** argv, void (*)(), void (*)(), void (*at_exit)(),
                      void* stack_end) {
    char** const environment = argv + argc + 1;
    environ = environment;
    __libc_stack_end = stack_end;
    char** end = environment;
    while (*end) ++end;
    _dl_aux_init(reinterpret_cast<ElfW(auxv_t)*>(end + 1));
    __tunables_init(environment);
    // Each memory function is chosen by a function of glibc's, which finds no feature of the
    // processor here.
    for (auto choice = __rela_iplt_start; choice != __rela_iplt_end; ++choice)
        *reinterpret_cast<ElfW(Addr)*>(choice->r_offset) =
            reinterpret_cast<ElfW(Addr) (*)()>(choice->r_addend)();
    __libc_setup_tls();
    // The canary of stacks, a zero its first byte, and what hides saved addresses: of the thread's
    // header.
    const std::uintptr_t canary = _dl_random[0] & ~std::uintptr_t{0xff};
    const std::uintptr_t guard = _dl_random[1];
    asm volatile("movq %0, %%fs:0x28" ::"r"(canary));
    asm volatile("movq %0, %%fs:0x30" ::"r"(guard));
    if (at_exit) std::atexit(at_exit);
    __libc_early_init(true);
    __libc_init_first(argc, argv, environment);
    __cxa_atexit(finish, nullptr, nullptr);
    for (auto function = __preinit_array_start; function != __preinit_array_end; ++function)
        (*function)(argc, argv, environment);
    _init();
    for (auto function = __init_array_start; function != __init_array_end; ++function)
        (*function)(argc, argv, environment);
    std::exit(main(argc, argv, environment));
}
}

#endif
