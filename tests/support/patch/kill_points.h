// Kills a piece of work at each of its steps, one after the other, or lets the step fail.
#pragma once

#include <functional>

namespace proftrace {

// Steps: system calls of `work` that do something to another process; those of `prepare`, which
// comes before it, are none. For point = first, first +
// step, …: a child does the work, and is killed instead of making the call with that number; then
// "killed POINT CALL" is printed and a line awaited from the standard input. Where the work ends
// before its point, "whole POINTS RESULT" is printed: how many there are, and what `work` returned.
int KillAtEachPoint(int first, int step, const std::function<void()>& prepare,
                    const std::function<int()>& work);
// Does the same steps, but the call with that number fails, and those after it do not; then "failed
// POINT CALL RESULT" is printed.
int FailAtEachPoint(int first, int step, const std::function<void()>& prepare,
                    const std::function<int()>& work);

}  // namespace proftrace
