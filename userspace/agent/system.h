// The agent's calls of the kernel and of libc. The library is loaded into foreign processes of any
// age. So it uses symbols of glibc 2.17 or older, has memory of its own (no malloc), and sets errno
// only where the caller's own library does.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace proftrace::agent {

// Maps private memory, of which forked children get a copy; nullptr: there is none.
void* MapPrivate(size_t bytes);
// Maps a file, shared, which forked children do not have; nullptr: that failed.
void* MapShared(int fd, size_t bytes);
void Unmap(void* address, size_t bytes);
// Gives pages back to the kernel; they read as zeros afterwards.
void GiveBack(void* address, size_t bytes);

// Makes a file in memory with that name and size, which cannot be made smaller or larger any more.
// Returns its descriptor, or a negative errno value.
int MakeMemoryFile(const char* name, size_t bytes);
void Close(int fd);
// Reads a file, up to `bytes` bytes of it. Returns 0 if it cannot be read.
size_t ReadFile(const char* path, char* text, size_t bytes);
bool FileExists(const char* path);

// Return the id of this process and of this thread in their own PID namespace. The kernel is asked
// each time, so that the ids are right after a fork, too.
int ProcessId();
int ThreadId();

// Return nanoseconds of CLOCK_MONOTONIC and CLOCK_REALTIME.
uint64_t MonotonicNs();
uint64_t RealtimeNs();

// Waits while *word is `value`, for at most `timeout_ns`. Works across processes.
void WaitOn(const uint32_t* word, uint32_t value, uint64_t timeout_ns);
void WakeAll(const uint32_t* word);

// Starts a detached thread with all signals blocked. Returns 0, or a negative errno value.
int StartThread(const char* name, void* (*run)(void*), void* argument);

// Registers `at_exit` to be called when the process exits, before all functions that are registered
// already. Does so once for each `is_done`.
void CallAtExitOnce(void (*at_exit)(void*), bool* is_done);
// Registers `in_child` to be called in each forked child.
void CallInChildren(void (*in_child)());

// Opens a library; with `open` false, only finds one that is open already. nullptr: there is none.
void* OpenLibrary(const char* name, bool open);
void* FindFunction(void* library, const char* name);

// A text that is being written into a buffer. The buffer always ends with NUL; characters that do
// not fit are left out.
struct Text {
  char* at;
  char* end;  // place of the last NUL
};
Text TextIn(char* buffer, size_t bytes);
void Append(Text* text, const char* what);
void AppendNumber(Text* text, uint64_t number);

}  // namespace proftrace::agent
