-- What a step of the job consists of, on the average of ranks and steps.
-- One row a part; ns a step. error_ns: the standard error of the mean, from step to step. Parts that were not recorded are left out.
WITH by_step AS (
  SELECT job, attempt, step,
         AVG(duration_ns) AS duration_ns,
         AVG(own_ns) AS own_ns,
         AVG(exposed_ns) AS exposed_ns,
         AVG(data_ns) AS data_ns,
         AVG(io_ns) AS io_ns,
         AVG(lock_ns) AS lock_ns,
         AVG(run_queue_ns) AS run_queue_ns,
         AVG(faults_ns) AS faults_ns,
         AVG(recording_ns) AS recording_ns,
         AVG(collection_ns) AS collection_ns,
         AVG(operators_ns) AS operators_ns,
         AVG(python_ns) AS python_ns,
         AVG(system_calls_ns) AS system_calls_ns,
         AVG(waiting_ns) AS waiting_ns,
         AVG(gpu_compute_ns) AS gpu_compute_ns
  FROM own_time
  GROUP BY job, attempt, step),
parts AS (
  SELECT 'step' AS what, duration_ns AS ns FROM by_step
  UNION ALL SELECT 'own time' AS what, own_ns AS ns FROM by_step
  UNION ALL SELECT 'exposed communication' AS what, exposed_ns AS ns FROM by_step
  UNION ALL SELECT 'data' AS what, data_ns AS ns FROM by_step
  UNION ALL SELECT 'io' AS what, io_ns AS ns FROM by_step
  UNION ALL SELECT 'lock' AS what, lock_ns AS ns FROM by_step
  UNION ALL SELECT 'run queue' AS what, run_queue_ns AS ns FROM by_step
  UNION ALL SELECT 'faults' AS what, faults_ns AS ns FROM by_step
  UNION ALL SELECT 'recording' AS what, recording_ns AS ns FROM by_step
  UNION ALL SELECT 'garbage collection' AS what, collection_ns AS ns FROM by_step
  UNION ALL SELECT 'operators' AS what, operators_ns AS ns FROM by_step
  UNION ALL SELECT 'python' AS what, python_ns AS ns FROM by_step
  UNION ALL SELECT 'system calls' AS what, system_calls_ns AS ns FROM by_step
  UNION ALL SELECT 'waiting' AS what, waiting_ns AS ns FROM by_step
  UNION ALL SELECT 'gpu' AS what, gpu_compute_ns AS ns FROM by_step)
SELECT what, COUNT(ns) AS steps, AVG(ns) AS mean_ns, MEDIAN(ns) AS median_ns,
       COALESCE(STDDEV_SAMP(ns), 0e0) / SQRT(COUNT(ns)) AS error_ns
FROM parts
WHERE ns IS NOT NULL
GROUP BY what
ORDER BY what
