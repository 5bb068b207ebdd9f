// The loss ledger counts every event that came in or went missing, by the reason. The counters are
// shown in the table's footer, the trace's metadata and summary.json. Two identities always hold:
//   records = decoded + unknown + malformed
//   begins  = closed + end_by_exception + end_lost + truncated
#pragma once

#include <cstdint>
#include <string_view>

namespace proftrace {

struct Ledger {
  uint64_t records = 0;  // records taken from the source
  uint64_t decoded = 0;
  uint64_t unknown = 0;           // of a kind that this version does not know, skipped by size
  uint64_t malformed = 0;         // of a known kind, with impossible contents
  uint64_t ring_lost = 0;         // dropped in the kernel because the ring was full
  uint64_t begins = 0;            // spans opened inside the window
  uint64_t closed = 0;            // ended by a return
  uint64_t end_by_exception = 0;  // ended at the catch
  uint64_t end_lost = 0;          // the span is over, but its end was never seen
  // Spans cut by the end of the window, thread or process, or by a loss marker.
  uint64_t truncated = 0;
  uint64_t unmatched_end =
      0;  // ends whose begin was not recorded (begun before the window, or lost)
  uint64_t outside_window =
      0;  // events before a process's probes were all live, or begun after the stop
  // Events older than an event already processed: they were given the time of that event.
  uint64_t late = 0;
  uint64_t partial_overlap = 0;  // annotations that outlive the span they began in
  uint64_t read_failed = 0;      // target memory that could not be read (a name, a pointer)
  uint64_t names_cut = 0;  // names longer than 4096 bytes; paths of system calls longer than 894
  uint64_t unnamed = 0;    // spans whose name could not be found
  uint64_t follow_failed = 0;  // children that could not be attached to, or that ended before that
  // Points at which any thread may have lost records: damaged blocks of a salvaged capture, and
  // losses on more threads than the BPF programs can note.
  uint64_t gaps = 0;
  uint64_t demoted = 0;  // operators that were only counted, to keep a budget
  // Calls whose inputs (of operators) or paths (of system calls) could not be read or kept.
  uint64_t inputs_unread = 0;
  uint64_t stacks_unread = 0;  // Python stacks that could not be read, or not to their end
  uint64_t stacks_cut = 0;     // Python stacks of which only the innermost 128 frames were read
  // Samples of threads that were dropped because there was no room, or no time at the end.
  uint64_t samples_lost = 0;
  uint64_t samples_unsteady = 0;  // samples whose thread ran while its stack was read
  uint64_t system_lost =
      0;  // system calls, times off the CPU and faults that there was no room for

  bool operator==(const Ledger&) const = default;

  bool ConservationHolds() const {
    return records == decoded + unknown + malformed &&
           begins == closed + end_by_exception + end_lost + truncated;
  }
  // Returns whether any data that the user asked for was lost or got a wrong time. --strict makes
  // that an error.
  bool AnyLoss() const {
    return ring_lost + malformed + end_lost + late + read_failed + unnamed + follow_failed + gaps +
               samples_lost + system_lost >
           0;
  }
};

// Counts the GPU agents' records by what became of them:
//   records = merged + unlinked + outside_window + unfinished + unknown + malformed
struct DeviceLedger {
  uint64_t records = 0;   // records taken from the source
  uint64_t merged = 0;    // became rows, or were used to make rows (names, contexts, clocks)
  uint64_t unlinked = 0;  // rows of device work whose CUDA call was not recorded
  // Work before the window, or after it where the CUDA call was after it, too.
  uint64_t outside_window = 0;
  // Work without a row, because it had not ended when CUPTI was flushed for the last time, or
  // because CUPTI could not take its times.
  uint64_t unfinished = 0;
  uint64_t unknown = 0;        // of a kind that this version does not know, skipped by size
  uint64_t malformed = 0;      // of a known kind, with impossible contents or times
  uint64_t gaps = 0;           // damaged blocks of a salvaged capture
  uint64_t missing = 0;        // records that an agent handed over and that are not in the capture
  uint64_t unnamed = 0;        // activities whose name did not come
  uint64_t names_cut = 0;      // names longer than 4096 bytes
  uint64_t ring_dropped = 0;   // dropped by the agents, because their ring was full
  uint64_t cupti_dropped = 0;  // dropped by CUPTI itself
  uint64_t unread = 0;         // by the agents: records of kinds or layouts that they do not know
  uint64_t buffers_refused = 0;  // times at which an agent had no buffer left for CUPTI
  // Buffers of CUPTI whose rest could not be read, because a record in them was not complete.
  uint64_t incomplete_buffers = 0;
  uint64_t incomplete_bytes = 0;  // bytes of the unread rests of these buffers

  bool operator==(const DeviceLedger&) const = default;

  bool ConservationHolds() const {
    return records == merged + unlinked + outside_window + unfinished + unknown + malformed;
  }
  // Work that had not ended is no loss. Records that lay behind such work in a buffer are one.
  bool AnyLoss() const {
    return malformed + gaps + missing + unnamed + ring_dropped + cupti_dropped + unread +
               buffers_refused + incomplete_buffers >
           0;
  }
};

template <typename LedgerType, typename Visitor>
void ForEachDeviceCounter(LedgerType& ledger, Visitor&& visit) {
  visit(std::string_view("records"), ledger.records);
  visit(std::string_view("merged"), ledger.merged);
  visit(std::string_view("unlinked"), ledger.unlinked);
  visit(std::string_view("outside_window"), ledger.outside_window);
  visit(std::string_view("unfinished"), ledger.unfinished);
  visit(std::string_view("unknown"), ledger.unknown);
  visit(std::string_view("malformed"), ledger.malformed);
  visit(std::string_view("gaps"), ledger.gaps);
  visit(std::string_view("missing"), ledger.missing);
  visit(std::string_view("unnamed"), ledger.unnamed);
  visit(std::string_view("names_cut"), ledger.names_cut);
  visit(std::string_view("ring_dropped"), ledger.ring_dropped);
  visit(std::string_view("cupti_dropped"), ledger.cupti_dropped);
  visit(std::string_view("unread"), ledger.unread);
  visit(std::string_view("buffers_refused"), ledger.buffers_refused);
  visit(std::string_view("incomplete_buffers"), ledger.incomplete_buffers);
  visit(std::string_view("incomplete_bytes"), ledger.incomplete_bytes);
}

// Calls visit(name, value) for each counter, in the order above: the one list of their names.
template <typename LedgerType, typename Visitor>
void ForEachCounter(LedgerType& ledger, Visitor&& visit) {
  visit(std::string_view("records"), ledger.records);
  visit(std::string_view("decoded"), ledger.decoded);
  visit(std::string_view("unknown"), ledger.unknown);
  visit(std::string_view("malformed"), ledger.malformed);
  visit(std::string_view("ring_lost"), ledger.ring_lost);
  visit(std::string_view("begins"), ledger.begins);
  visit(std::string_view("closed"), ledger.closed);
  visit(std::string_view("end_by_exception"), ledger.end_by_exception);
  visit(std::string_view("end_lost"), ledger.end_lost);
  visit(std::string_view("truncated"), ledger.truncated);
  visit(std::string_view("unmatched_end"), ledger.unmatched_end);
  visit(std::string_view("outside_window"), ledger.outside_window);
  visit(std::string_view("late"), ledger.late);
  visit(std::string_view("partial_overlap"), ledger.partial_overlap);
  visit(std::string_view("read_failed"), ledger.read_failed);
  visit(std::string_view("names_cut"), ledger.names_cut);
  visit(std::string_view("unnamed"), ledger.unnamed);
  visit(std::string_view("follow_failed"), ledger.follow_failed);
  visit(std::string_view("gaps"), ledger.gaps);
  visit(std::string_view("demoted"), ledger.demoted);
  visit(std::string_view("inputs_unread"), ledger.inputs_unread);
  visit(std::string_view("stacks_unread"), ledger.stacks_unread);
  visit(std::string_view("stacks_cut"), ledger.stacks_cut);
  visit(std::string_view("samples_lost"), ledger.samples_lost);
  visit(std::string_view("samples_unsteady"), ledger.samples_unsteady);
  visit(std::string_view("system_lost"), ledger.system_lost);
}

}  // namespace proftrace
