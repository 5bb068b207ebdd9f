// What a worker that reads a target asks the process that started it.
#pragma once

namespace proftrace {

// The first byte of a question. Behind it comes a path, or what is said below. The answer is a
// little-endian errno value of 4 bytes (0 = done), then what is said below.
enum class EntryQuestion : char {
  kOpen = 'o',  // gives a descriptor of an entry of /proc
  kStat = 's',  // gives a struct stat
  // Gives the begin of an entry's text, which the kernel shows only to those who may trace the
  // target for some entries. Four bytes, little-endian, before the path say how much.
  kText = 't',
  kLink = 'l',  // gives the text of a link
  // Ask about files (asked_files.h): for one that the target has mapped, for one by a path in its
  // root, for bytes of a remote one, and whether that is unchanged.
  kMappedFile = 'm',
  kBelowRoot = 'r',
  kRead = 'd',
  kUnchanged = 'u',
  // Asks with a FileState and a build-id; gives the facts of that file (file_facts.h) if they are
  // known, else none.
  kKnownFacts = 'k',
  kFacts = 'f',  // as kKnownFacts, but they are found out if need be: see file_facts.cc
};

}  // namespace proftrace
