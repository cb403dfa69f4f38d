// oneDNN's two generations of C++ interface behind one spelling: 2.x (Debian 12) and 3.x.
#pragma once

#include <dnnl.hpp>

namespace slipway::train::cpu {

/// Scratch memory comes from our plan, not from the library.
inline dnnl::primitive_attr planned_scratch() {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attributes;
}

/// Choose an implementation of a forward operation.
template <typename Operation, typename... Args>
typename Operation::primitive_desc choose(const dnnl::engine& engine, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
    return typename Operation::primitive_desc(engine, args..., planned_scratch());
#else
    return typename Operation::primitive_desc(typename Operation::desc(args...), planned_scratch(),
                                              engine);
#endif
}

/// Choose an implementation of a backward operation that goes with `forward`.
template <typename Operation, typename Forward, typename... Args>
typename Operation::primitive_desc choose_backward(const dnnl::engine& engine,
                                                   const Forward& forward, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
    return typename Operation::primitive_desc(engine, args..., forward, planned_scratch());
#else
    return typename Operation::primitive_desc(typename Operation::desc(args...), planned_scratch(),
                                              engine, forward);
#endif
}

inline dnnl::memory::desc plain_desc(const dnnl::memory::dims& dims) {
    using tag = dnnl::memory::format_tag;
    const tag tags[] = {tag::a, tag::ab, tag::abc, tag::abcd};
    return {dims, dnnl::memory::data_type::f32, tags[dims.size() - 1]};
}

inline dnnl::memory::desc any_desc(const dnnl::memory::dims& dims) {
    return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

}  // namespace slipway::train::cpu
