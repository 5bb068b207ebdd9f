// The questions that a worker which reads a target asks the process that started it.
#pragma once

namespace proftrace {

// The first byte of a question. A path follows, unless another content is described below. The
// answer begins with a little-endian errno value of 4 bytes (0 = done); its rest is described
// below.
enum class EntryQuestion : char {
  kOpen = 'o',  // gives a descriptor of an entry of /proc
  kStat = 's',  // gives a struct stat
  // Gives the begin of an entry's text, because the kernel shows some entries only to those who may
  // trace the target. Four bytes, little-endian, before the path hold the number of bytes.
  kText = 't',
  kLink = 'l',  // gives the text of a link
  // Ask about files (asked_files.h): for a file that the target has mapped, for a file by its path
  // in the target's root, for bytes of a remote file, and whether a remote file is unchanged.
  kMappedFile = 'm',
  kBelowRoot = 'r',
  kRead = 'd',
  kUnchanged = 'u',
  // Asks with a FileState and a build-id; gives the facts of that file (file_facts.h) if they are
  // known, else nothing.
  kKnownFacts = 'k',
  kFacts = 'f',  // as kKnownFacts, but the file is analysed where its facts are not known
  // Asks with a list of files, each as for kKnownFacts with the length of its build-id (two bytes,
  // little-endian) before that; all of them are analysed at the same time, on all processors, and
  // kFacts gives the results. Gives nothing.
  kPrepare = 'p',
};

}  // namespace proftrace
