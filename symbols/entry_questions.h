// What a worker that reads a target asks the process that started it.
#pragma once

namespace proftrace {

// The first byte of a question; a path is behind it, or what is said here. The answer's bytes are a
// little-endian errno value of 4 bytes (0 = done), then what is said here.
enum class EntryQuestion : char {
  kOpen = 'o',  // of an entry of /proc: a descriptor
  kStat = 's',  // a struct stat
  // The begin of an entry's text, which some entries show to those alone who may trace the target.
  // Four bytes, little-endian, before the path: how much of it.
  kText = 't',
  kLink = 'l',  // the text
  // Of files (asked_files.h): one that the target has mapped, one by a path in its root; bytes of a
  // remote one, and whether it is as it was.
  kMappedFile = 'm',
  kBelowRoot = 'r',
  kRead = 'd',
  kUnchanged = 'u',
  // A FileState and a build-id: the facts of that file (file_facts.h), if they are known; else
  // none.
  kKnownFacts = 'k',
  kFacts = 'f',  // the same, found out if need be, and what that said: see file_facts.cc
};

}  // namespace proftrace
