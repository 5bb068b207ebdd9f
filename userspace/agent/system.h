// What the agent asks of the kernel and of libc. The library is loaded into foreign processes of
// any age: symbols are of glibc 2.17 or older, memory is the agent's own (no malloc), and nothing
// sets errno but for the caller's own library.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace proftrace::agent {

// Maps memory; nullptr when there is none. Forked children have a copy.
void* MapPrivate(size_t bytes);
// Maps a file, shared; nullptr when that fails. Forked children do not have it.
void* MapShared(int fd, size_t bytes);
void Unmap(void* address, size_t bytes);
// Gives pages back to the kernel; they read as zeros afterwards.
void GiveBack(void* address, size_t bytes);

// Makes a file in memory of that name and size, which can no more be made smaller or larger; a
// negative errno value when there is none.
int MakeMemoryFile(const char* name, size_t bytes);
void Close(int fd);
// Reads the whole of a file, as far as it fits; 0 when it cannot be read.
size_t ReadFile(const char* path, char* text, size_t bytes);
bool FileExists(const char* path);

int ProcessId();  // in its own namespace; asked of the kernel each time, so right after a fork
int ThreadId();

// Nanoseconds of CLOCK_MONOTONIC and CLOCK_REALTIME.
uint64_t MonotonicNs();
uint64_t RealtimeNs();

// Waits while *word is `value`, `timeout_ns` at most. Across processes.
void WaitOn(const uint32_t* word, uint32_t value, uint64_t timeout_ns);
void WakeAll(const uint32_t* word);

// Starts a detached thread with all signals blocked; a negative errno value when there is none.
int StartThread(const char* name, void* (*run)(void*), void* argument);

// Has `at_exit` called when the process exits, before what was registered until now; does so once
// for each `is_done`.
void CallAtExitOnce(void (*at_exit)(void*), bool* is_done);
// Has `in_child` called in each child that is forked.
void CallInChildren(void (*in_child)());

// Opens a library, or with `open` false only finds one that is open; nullptr when there is none.
void* OpenLibrary(const char* name, bool open);
void* FindFunction(void* library, const char* name);

// Texts. `to` always ends with NUL; what does not fit is left out.
struct Text {
  char* at;
  char* end;  // place of the last NUL
};
Text TextIn(char* buffer, size_t bytes);
void Append(Text* text, const char* what);
void AppendNumber(Text* text, uint64_t number);

}  // namespace proftrace::agent
