#include "symbols/plan/job_identity.h"

#include <gtest/gtest.h>

#include "symbols/plan/host_identity.h"

namespace proftrace {
namespace {

constexpr char kUid[] = "0f6c7a0e-1d2c-4b3a-9e8f-aabbccddeeff";
constexpr char kByDriver[] =
    "0::/kubepods.slice/kubepods-burstable.slice/"
    "kubepods-burstable-pod0f6c7a0e_1d2c_4b3a_9e8f_aabbccddeeff.slice/cri-containerd-12.scope\n";

TEST(JobIdentityTest, LaunchersVariablesAreRead) {
  const JobFacts facts = JobOf({{"RANK", "3"},
                                {"WORLD_SIZE", "8"},
                                {"LOCAL_RANK", "1"},
                                {"LOCAL_WORLD_SIZE", "2"},
                                {"GROUP_RANK", "1"},
                                {"MASTER_ADDR", "fe80::1%eth0"},
                                {"MASTER_PORT", "29500"},
                                {"TORCHELASTIC_RUN_ID", "none"},
                                {"TORCHELASTIC_RESTART_COUNT", "2"},
                                {"SLURM_CLUSTER_NAME", "c"},
                                {"SLURM_JOB_ID", "1234567"},
                                {"SLURM_STEP_ID", "4294967291"},
                                {"SLURM_PROCID", "5"},
                                {"SLURM_NODEID", "0"},
                                {"SLURM_RESTART_COUNT", "1"}},
                               {});
  EXPECT_EQ(facts.rank, 3);
  EXPECT_EQ(facts.world_size, 8);
  const JobIdentity& job = facts.identity;
  EXPECT_EQ(job.local_rank, 1u);
  EXPECT_EQ(job.local_world_size, 2u);
  EXPECT_EQ(job.group_rank, 1u);
  EXPECT_EQ(job.master_addr, "fe80::1%eth0");
  EXPECT_EQ(job.master_port, 29500u);
  EXPECT_EQ(job.elastic_run_id, "none");
  EXPECT_EQ(job.elastic_restart_count, 2u);
  EXPECT_EQ(job.slurm_cluster, "c");
  EXPECT_EQ(job.slurm_job_id, 1234567u);
  EXPECT_EQ(job.slurm_step_id, 4294967291u) << "a batch script's";
  EXPECT_EQ(job.slurm_proc_id, 5u);
  EXPECT_EQ(job.slurm_node_id, 0u);
  EXPECT_EQ(job.slurm_restart_count, 1u);
}

TEST(JobIdentityTest, WhatIsNoNumberIsNone) {
  for (const char* text :
       {"", "-1", "x", "1x", " 1", "1.5", "4294967296", "99999999999999999999"}) {
    const JobFacts facts =
        JobOf({{"RANK", text}, {"LOCAL_RANK", text}, {"SLURM_JOB_ID", text}}, {});
    EXPECT_FALSE(facts.rank) << text;
    EXPECT_EQ(facts.identity, JobIdentity()) << text;
  }
}

TEST(JobIdentityTest, APodIsKnownByTheNamesOfTheDownwardApi) {
  const JobFacts facts = JobOf({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"},
                                {"HOSTNAME", "host"},
                                {"MY_POD_NAME", "trainer-0"},
                                {"POD_NAMESPACE", "ml"},
                                {"K8S_POD_UID", kUid},
                                {"NODE_NAME", "n1"}},
                               {"", true, "other"});
  EXPECT_EQ(facts.identity.kubernetes_pod, "trainer-0");
  EXPECT_EQ(facts.identity.kubernetes_namespace, "ml");
  EXPECT_EQ(facts.identity.kubernetes_pod_uid, kUid);
  EXPECT_EQ(facts.identity.kubernetes_node, "n1");
}

TEST(JobIdentityTest, APodWithoutThemIsKnownByItsHostNameAndItsControlGroup) {
  // As a shell that was started by sshd in the pod has it.
  const JobFacts facts = JobOf({{"HOSTNAME", "trainer-0"}}, {kByDriver, true, "ml"});
  EXPECT_EQ(facts.identity.kubernetes_pod, "trainer-0");
  EXPECT_EQ(facts.identity.kubernetes_namespace, "ml");
  EXPECT_EQ(facts.identity.kubernetes_pod_uid, kUid);
}

TEST(JobIdentityTest, ThePodsNameInItsHostsNetworkIsNotTheHosts) {
  const JobFacts facts = JobOf({{"HOSTNAME", "node-7"}}, {kByDriver, false, "ml"});
  EXPECT_EQ(facts.identity.kubernetes_pod, "");
  EXPECT_EQ(facts.identity.kubernetes_pod_uid, kUid);
}

TEST(JobIdentityTest, OutsideOfKubernetesNothingIsAPod) {
  const JobFacts facts = JobOf({{"HOSTNAME", "h"}, {"POD_NAME", "p"}, {"NODE_NAME", "n"}},
                               {"0::/user.slice/user-0.slice/session-1.scope\n", true, "ml"});
  EXPECT_EQ(facts.identity, JobIdentity());
}

TEST(JobIdentityTest, PodsUidsAreFoundInControlGroups) {
  EXPECT_EQ(PodUidOf(kByDriver), kUid);
  EXPECT_EQ(PodUidOf("5:cpu:/a\n4:memory:/kubepods/burstable/pod" + std::string(kUid) + "/12ab\n"),
            kUid);
  EXPECT_EQ(PodUidOf("0::/kubepods/pod0123456789abcdef0123456789abcdef/1"),
            "0123456789abcdef0123456789abcdef")
      << "a static pod's";
  EXPECT_EQ(PodUidOf("0::/machine.slice/libpod-" + std::string(64, 'a') + ".scope"), "");
  EXPECT_EQ(PodUidOf("0::/kubepods.slice/kubepods-burstable.slice"), "");
  EXPECT_EQ(PodUidOf(""), "");
}

TEST(HostIdentityTest, AMachineIdIsHashed) {
  const std::string hash = HashOfMachineId("0123456789abcdef0123456789abcdef\n");
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(hash, HashOfMachineId("0123456789abcdef0123456789abcdef"));
  EXPECT_NE(hash, HashOfMachineId("0123456789abcdef0123456789abcdee"));
  for (const char* text : {"", "uninitialized\n", "0123456789ABCDEF0123456789abcdef", "0123"}) {
    EXPECT_EQ(HashOfMachineId(text), "") << text;
  }
}

TEST(HostIdentityTest, TheBootIsKnown) {
  EXPECT_EQ(ReadHostIdentity().boot_id.size(), 36u);
  EXPECT_EQ(ReadHostIdentity().boot_id, ReadHostIdentity().boot_id);
}

}  // namespace
}  // namespace proftrace
