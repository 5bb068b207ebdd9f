-- By how much each step of a rank is longer by its own doing than those of the ranks that are alike.
-- A view: other questions build on it. One row a rank and step, ns. excess_ns is the sum of the parts, each less what is usual;
-- where parts were not recorded, it is the own time's. As parts are compared one by one, several slow ranks hide each other only
-- where half of the ranks are slow for the same reason. spread_ns: by how much the mean of it differs from rank to rank usually.
SELECT s.job, s.attempt, s.rank, s.host, s.step, s.cohort, s.cohort_ranks, s.cohort_duration_ns,
       COALESCE(s.data_ns - u.data_ns + s.io_ns - u.io_ns + s.lock_ns - u.lock_ns + s.run_queue_ns - u.run_queue_ns + s.faults_ns - u.faults_ns + s.collection_ns - u.collection_ns + s.operators_ns - u.operators_ns + s.python_ns - u.python_ns + s.waiting_ns - u.waiting_ns,
                s.own_ns - u.own_ns) AS excess_ns,
       1.4826e0 * COALESCE(SQRT(u.data_mad_ns * u.data_mad_ns + u.io_mad_ns * u.io_mad_ns + u.lock_mad_ns * u.lock_mad_ns + u.run_queue_mad_ns * u.run_queue_mad_ns + u.faults_mad_ns * u.faults_mad_ns + u.collection_mad_ns * u.collection_mad_ns + u.operators_mad_ns * u.operators_mad_ns + u.python_mad_ns * u.python_mad_ns + u.waiting_mad_ns * u.waiting_mad_ns), u.own_mad_ns) AS spread_ns,
       CASE WHEN s.waiting_ns IS NULL THEN 0 ELSE 1 END AS has_parts,
       s.data_ns - u.data_ns AS data_ns,
       s.io_ns - u.io_ns AS io_ns,
       s.lock_ns - u.lock_ns AS lock_ns,
       s.run_queue_ns - u.run_queue_ns AS run_queue_ns,
       s.faults_ns - u.faults_ns AS faults_ns,
       s.collection_ns - u.collection_ns AS collection_ns,
       s.operators_ns - u.operators_ns AS operators_ns,
       s.python_ns - u.python_ns AS python_ns,
       s.waiting_ns - u.waiting_ns AS waiting_ns,
       s.gpu_compute_ns - u.gpu_compute_ns AS gpu_compute_ns
FROM step_excess s JOIN usual_excess u ON s.job = u.job AND s.attempt = u.attempt AND s.cohort = u.cohort
