-- By how much each step of a rank exceeds the median of the ranks that are alike, by parts.
-- A view: other questions build on it. One row a rank and step, ns. The parts are those of own_time, less the medians of the same
-- step; own_ns is the same of the whole, for ranks whose parts were not recorded.
WITH compared AS (
  SELECT o.*, c.cohort, c.cohort_ranks
  FROM own_time o JOIN cohorts c ON o.job = c.job AND o.attempt = c.attempt AND o.rank = c.rank),
medians AS (
  SELECT o.job, o.attempt, o.cohort, o.step, COUNT(*) AS members, MEDIAN(o.duration_ns) AS duration_ns,
         MEDIAN(o.own_ns) AS own_ns, MEDIAN(o.gpu_compute_ns) AS gpu_compute_ns,
         MEDIAN(o.data_ns) AS data_ns,
         MEDIAN(o.io_ns) AS io_ns,
         MEDIAN(o.lock_ns) AS lock_ns,
         MEDIAN(o.run_queue_ns) AS run_queue_ns,
         MEDIAN(o.faults_ns) AS faults_ns,
         MEDIAN(o.collection_ns) AS collection_ns,
         MEDIAN(o.operators_ns) AS operators_ns,
         MEDIAN(o.python_ns) AS python_ns,
         MEDIAN(o.waiting_ns) AS waiting_ns
  FROM compared o
  GROUP BY o.job, o.attempt, o.cohort, o.step)
SELECT o.job, o.attempt, o.rank, o.host, o.step, o.cohort, o.cohort_ranks, m.members AS step_ranks,
       m.duration_ns AS cohort_duration_ns, o.own_ns - m.own_ns AS own_ns, o.gpu_compute_ns - m.gpu_compute_ns AS gpu_compute_ns,
       o.data_ns - m.data_ns AS data_ns,
       o.io_ns - m.io_ns AS io_ns,
       o.lock_ns - m.lock_ns AS lock_ns,
       o.run_queue_ns - m.run_queue_ns AS run_queue_ns,
       o.faults_ns - m.faults_ns AS faults_ns,
       o.collection_ns - m.collection_ns AS collection_ns,
       o.operators_ns - m.operators_ns AS operators_ns,
       o.python_ns - m.python_ns AS python_ns,
       o.waiting_ns - m.waiting_ns AS waiting_ns
FROM compared o JOIN medians m ON o.job = m.job AND o.attempt = m.attempt AND o.cohort = m.cohort AND o.step = m.step
WHERE m.members > 2
