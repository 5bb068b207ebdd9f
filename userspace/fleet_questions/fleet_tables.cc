#include "userspace/fleet_questions/fleet_tables.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr char kSuffix[] = ".parquet";

std::string Joined(std::string_view columns) {
  return std::string(kCommonColumns) + ", " + std::string(columns);
}

// Returns a SELECT without rows that has the columns "a BIGINT, b VARCHAR".
std::string EmptySelect(std::string_view columns) {
  std::string text;
  for (const std::string_view column : SplitText(columns, ",", /*skip_empty=*/true)) {
    const std::string_view words = StripBlanks(column);
    const size_t blank = words.find(' ');
    text += (text.empty() ? "SELECT CAST(NULL AS " : ", CAST(NULL AS ") +
            std::string(words.substr(blank + 1)) + ") AS " + std::string(words.substr(0, blank));
  }
  return text + " WHERE FALSE";
}

bool HasParquet(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator entries(
      folder, std::filesystem::directory_options::skip_permission_denied, error);
  for (; !error && entries != std::filesystem::recursive_directory_iterator();
       entries.increment(error)) {
    if (entries->path().extension() == kSuffix) return true;
  }
  return false;
}

// Returns whether the directory has facts, from which `align` makes tables.
bool HasFacts(const std::string& directory) {
  std::error_code error;
  std::filesystem::directory_iterator facts(std::filesystem::path(directory) / "facts", error);
  return !error && facts != std::filesystem::directory_iterator();
}

}  // namespace

const std::string_view kCommonColumns =
    "job VARCHAR, attempt BIGINT, host VARCHAR, rank BIGINT, input VARCHAR";

const std::vector<FleetTable>& FleetTables() {
  static const auto* const kTables = new std::vector<FleetTable>{
      {"captures", true,
       "source VARCHAR, is_main BIGINT, path VARCHAR, bytes BIGINT, boot_id VARCHAR, kernel "
       "VARCHAR, cpus BIGINT, "
       "gpu VARCHAR, pid BIGINT, world_size BIGINT, local_rank BIGINT, torch_version VARCHAR, "
       "cuda_version VARCHAR, proftrace_version VARCHAR, start_ns BIGINT, end_ns BIGINT, "
       "local_start_ns BIGINT, offset_ns BIGINT, drift_ppb BIGINT, bound_ns BIGINT, "
       "estimate_error_ns BIGINT, clock_method VARCHAR, timeline BIGINT, events BIGINT, "
       "lost BIGINT, resolution_ns BIGINT, overhead_percent DOUBLE, steps BIGINT, "
       "step_confidence DOUBLE, step_offset BIGINT, unsupported VARCHAR, remarks VARCHAR"},
      {"clocks", true,
       "boot_id VARCHAR, timeline BIGINT, is_reference BIGINT, local_ns BIGINT, offset_ns BIGINT, "
       "low_ns BIGINT, high_ns BIGINT, estimate_error_ns BIGINT, method VARCHAR"},
      {"steps", true,
       "pid BIGINT, tid BIGINT, is_main BIGINT, step BIGINT, local_step BIGINT, start_ns BIGINT, "
       "end_ns BIGINT, duration_ns BIGINT, bound_ns BIGINT, confidence DOUBLE, compute_ns BIGINT, "
       "data_ns BIGINT, io_ns BIGINT, lock_ns BIGINT, event_ns BIGINT, run_queue_ns BIGINT, "
       "faults_ns BIGINT, other_ns BIGINT, why_data_ns BIGINT, why_collection_ns BIGINT, "
       "why_collective_ns BIGINT, why_run_queue_ns BIGINT, why_faults_ns BIGINT, "
       "why_recording_ns BIGINT, why_lock_ns BIGINT, why_event_ns BIGINT, why_io_ns BIGINT, "
       "why_other_ns BIGINT, why_synchronizing_ns BIGINT, why_operators_ns BIGINT, "
       "why_python_ns BIGINT, gpu_busy_ns BIGINT, gpu_compute_ns BIGINT, gpu_idle_ns BIGINT, "
       "comm_ns BIGINT, comm_overlap_ns BIGINT, comm_exposed_ns BIGINT, comm_wait_ns BIGINT, "
       "comm_transfer_ns BIGINT, mem_peak_bytes BIGINT"},
      {"collectives", true,
       "group_key VARCHAR, group_name VARCHAR, group_desc VARCHAR, group_size BIGINT, "
       "members VARCHAR, seq BIGINT, is_p2p BIGINT, peer BIGINT, op VARCHAR, dtype VARCHAR, "
       "in_bytes BIGINT, out_bytes BIGINT, step BIGINT, device BIGINT, stream BIGINT, "
       "launch_ns BIGINT, begin_ns BIGINT, end_ns BIGINT, source VARCHAR, match VARCHAR, "
       "bound_ns BIGINT, estimate_error_ns BIGINT, timeline BIGINT"},
      {"operators", false,
       "pid BIGINT, name VARCHAR, calls BIGINT, self_ns BIGINT, total_ns BIGINT, "
       "on_cpu_ns BIGINT, off_cpu_ns BIGINT, device_ns BIGINT, self_device_ns BIGINT, "
       "cpu_bytes BIGINT, device_bytes BIGINT"},
      {"kernels", false,
       "pid BIGINT, device BIGINT, name VARCHAR, kind VARCHAR, is_communication BIGINT, "
       "calls BIGINT, total_ns BIGINT, median_ns BIGINT, p99_ns BIGINT, least_ns BIGINT, "
       "longest_ns BIGINT, bytes BIGINT"},
      {"memory", false,
       "pid BIGINT, device VARCHAR, step BIGINT, start_ns BIGINT, end_ns BIGINT, "
       "allocations BIGINT, frees BIGINT, allocated_bytes BIGINT, freed_bytes BIGINT, "
       "begin_bytes BIGINT, peak_bytes BIGINT, end_bytes BIGINT"},
      {"processes", false,
       "pid BIGINT, ppid BIGINT, comm VARCHAR, exe VARCHAR, cmdline VARCHAR, world_size BIGINT, "
       "local_rank BIGINT, torch_version VARCHAR, python_version VARCHAR, cuda_version VARCHAR, "
       "threads BIGINT, namespace_pid BIGINT"},
      {"gpu_idle", false,
       "pid BIGINT, device BIGINT, start_ns BIGINT, duration_ns BIGINT, main_cause VARCHAR, "
       "operator_ns BIGINT, synchronizing_ns BIGINT, cuda_call_ns BIGINT, dataloader_ns BIGINT, "
       "outside_operators_ns BIGINT, launched_ns BIGINT, unknown_ns BIGINT"},
      {"data_waits", false,
       "step BIGINT, start_ns BIGINT, duration_ns BIGINT, blocked_ns BIGINT, pid BIGINT, "
       "tid BIGINT, worker_pid BIGINT, worker_io_ns BIGINT, worker_off_ns BIGINT, "
       "worker_bytes BIGINT, call VARCHAR, path VARCHAR, call_ns BIGINT"},
      {"io", false,
       "file VARCHAR, kind VARCHAR, opens BIGINT, reads BIGINT, writes BIGINT, calls BIGINT, "
       "errors BIGINT, bytes_read BIGINT, bytes_written BIGINT, time_ns BIGINT, "
       "off_cpu_ns BIGINT, longest_ns BIGINT, page_ins BIGINT, page_in_ns BIGINT"},
      {"waits", false,
       "pid BIGINT, tid BIGINT, thread_name VARCHAR, reason VARCHAR, path VARCHAR, "
       "python VARCHAR, syscall VARCHAR, waker_pid BIGINT, waker_thread_name VARCHAR, "
       "count BIGINT, blocked_ns BIGINT, longest_ns BIGINT"},
      {"losses", false, "ledger VARCHAR, counter VARCHAR, count BIGINT"},
      {"recordings", false,
       "kernel VARCHAR, cpus BIGINT, tier VARCHAR, start_ns BIGINT, duration_ns BIGINT, "
       "has_loss BIGINT"},
      {"clock_readings", false,
       "monotonic_ns BIGINT, boottime_ns BIGINT, realtime_ns BIGINT, gap_ns BIGINT, "
       "ntp_synchronised BIGINT, ntp_max_error_ns BIGINT"},
  };
  return *kTables;
}

std::string FilesOf(const FleetTable& table) {
  const std::string name(table.name);
  return table.is_aligned ? "aligned/" + name + kSuffix : name + "/**/*" + kSuffix;
}

bool HasFiles(const std::string& directory, const FleetTable& table) {
  const std::filesystem::path path(directory);
  std::error_code error;
  if (table.is_aligned) return std::filesystem::is_regular_file(path / FilesOf(table), error);
  return HasParquet(path / table.name);
}

uint64_t AlignedBytes(const std::string& directory, const FleetTable& table) {
  if (!table.is_aligned) return 0;
  std::error_code error;
  const uintmax_t bytes =
      std::filesystem::file_size(std::filesystem::path(directory) / FilesOf(table), error);
  return error ? 0 : bytes;
}

absl::Status CheckFleetDirectory(const std::string& directory) {
  struct stat facts {};
  const std::string shown = ShownText(directory);
  if (stat(directory.c_str(), &facts) != 0) {
    return Fail(ExitCode::kUsage, "cannot read " + shown + ": " + ErrnoText(errno));
  }
  if (!S_ISDIR(facts.st_mode)) {
    return Fail(ExitCode::kUsage,
                shown + " is no directory of a fleet; 'proftrace fleet ingest' makes one");
  }
  bool has_any = false;
  for (const FleetTable& table : FleetTables()) {
    const bool has = HasFiles(directory, table);
    has_any = has_any || has;
    if (!table.is_aligned || has) continue;
    if (HasParquet(std::filesystem::path(directory) / table.name) || HasFacts(directory)) {
      return Fail(ExitCode::kUsage, "the clocks of " + shown +
                                        " are not aligned yet; run 'proftrace fleet align " +
                                        shown + "' first");
    }
  }
  if (has_any) return absl::OkStatus();
  return Fail(ExitCode::kUsage, shown +
                                    " has no tables of a fleet; 'proftrace fleet ingest RESULT... "
                                    "-o DIR' makes them");
}

std::string TableViewSql(const FleetTable& table, const std::string& directory, bool has_files) {
  std::string select = EmptySelect(Joined(table.columns));
  if (has_files) {
    select += " UNION ALL BY NAME SELECT * FROM read_parquet('" + directory + "/" + FilesOf(table) +
              "', union_by_name = true, hive_partitioning = false)";
  }
  // Empty jobs and attempts get a value, so that their rows are joined as well.
  return "CREATE OR REPLACE TEMP VIEW " + std::string(table.name) +
         " AS SELECT * REPLACE (COALESCE(job, '') AS job, COALESCE(attempt, 0) AS attempt) FROM "
         "(" +
         select + ")";
}

}  // namespace proftrace
