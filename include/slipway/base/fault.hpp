// Named places where a test may break a process: what a session survives is tried there.
#pragma once

namespace slipway::fault {

/// Where a build has fault points (CMake: SLIPWAY_FAULT_POINTS), do what the variable SLIPWAY_FAULT
/// asks for at the point of this name: "NAME:kill", "NAME:stop", "NAME:error" (an Error is thrown)
/// or "NAME:sleep=MILLISECONDS"; "NAME@N:..." does it when the point is passed for the Nth time.
/// The point "change" is passed after every system call that changes a name or a file's state.
/// Otherwise nothing, and at no cost.
#ifdef SLIPWAY_FAULT_POINTS
void point(const char* name);
#else
inline void point(const char* /*name*/) {}
#endif

}  // namespace slipway::fault
