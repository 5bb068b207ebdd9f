-- What excess is usual among ranks that are alike, and by how much it differs from rank to rank.
-- A view: other questions build on it. One row a cohort; ns a step. For each part the median over the ranks of their mean excess,
-- and beside it (_mad_ns) the median of the distances from that.
WITH by_rank AS (
  SELECT job, attempt, cohort, rank,
         AVG(data_ns) AS data_ns,
         AVG(io_ns) AS io_ns,
         AVG(lock_ns) AS lock_ns,
         AVG(run_queue_ns) AS run_queue_ns,
         AVG(faults_ns) AS faults_ns,
         AVG(collection_ns) AS collection_ns,
         AVG(operators_ns) AS operators_ns,
         AVG(python_ns) AS python_ns,
         AVG(waiting_ns) AS waiting_ns,
         AVG(own_ns) AS own_ns,
         AVG(gpu_compute_ns) AS gpu_compute_ns
  FROM step_excess
  GROUP BY job, attempt, cohort, rank),
centre AS (
  SELECT job, attempt, cohort,
         MEDIAN(data_ns) AS data_ns,
         MEDIAN(io_ns) AS io_ns,
         MEDIAN(lock_ns) AS lock_ns,
         MEDIAN(run_queue_ns) AS run_queue_ns,
         MEDIAN(faults_ns) AS faults_ns,
         MEDIAN(collection_ns) AS collection_ns,
         MEDIAN(operators_ns) AS operators_ns,
         MEDIAN(python_ns) AS python_ns,
         MEDIAN(waiting_ns) AS waiting_ns,
         MEDIAN(own_ns) AS own_ns,
         MEDIAN(gpu_compute_ns) AS gpu_compute_ns
  FROM by_rank
  GROUP BY job, attempt, cohort)
SELECT r.job, r.attempt, r.cohort,
       MAX(c.data_ns) AS data_ns, MEDIAN(ABS(r.data_ns - c.data_ns)) AS data_mad_ns,
       MAX(c.io_ns) AS io_ns, MEDIAN(ABS(r.io_ns - c.io_ns)) AS io_mad_ns,
       MAX(c.lock_ns) AS lock_ns, MEDIAN(ABS(r.lock_ns - c.lock_ns)) AS lock_mad_ns,
       MAX(c.run_queue_ns) AS run_queue_ns, MEDIAN(ABS(r.run_queue_ns - c.run_queue_ns)) AS run_queue_mad_ns,
       MAX(c.faults_ns) AS faults_ns, MEDIAN(ABS(r.faults_ns - c.faults_ns)) AS faults_mad_ns,
       MAX(c.collection_ns) AS collection_ns, MEDIAN(ABS(r.collection_ns - c.collection_ns)) AS collection_mad_ns,
       MAX(c.operators_ns) AS operators_ns, MEDIAN(ABS(r.operators_ns - c.operators_ns)) AS operators_mad_ns,
       MAX(c.python_ns) AS python_ns, MEDIAN(ABS(r.python_ns - c.python_ns)) AS python_mad_ns,
       MAX(c.waiting_ns) AS waiting_ns, MEDIAN(ABS(r.waiting_ns - c.waiting_ns)) AS waiting_mad_ns,
       MAX(c.own_ns) AS own_ns, MEDIAN(ABS(r.own_ns - c.own_ns)) AS own_mad_ns,
       MAX(c.gpu_compute_ns) AS gpu_compute_ns, MEDIAN(ABS(r.gpu_compute_ns - c.gpu_compute_ns)) AS gpu_compute_mad_ns
FROM by_rank r JOIN centre c ON r.job = c.job AND r.attempt = c.attempt AND r.cohort = c.cohort
GROUP BY r.job, r.attempt, r.cohort
