/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The facts that readers know of each kind of record (record_kinds.def). C++ only. */
#ifndef PROFTRACE_BPF_ABI_RECORD_KINDS_H
#define PROFTRACE_BPF_ABI_RECORD_KINDS_H

#include <array>
#include <cstddef>

#include "bpf/abi/python_records.h"
#include "bpf/abi/records.h"
#include "bpf/abi/sample_records.h"
#include "bpf/abi/script_records.h"
#include "bpf/abi/system_records.h"

namespace proftrace::abi
{

struct RecordKind {
	size_t least_bytes; /* 0: the kind is not known, or is never in a capture */
	pt_u32 roles;	    /* of enum pt_kind_role */
};

/* The facts of each kind (enum pt_kind), by its number. */
inline constexpr std::array<RecordKind, 256> kRecordKinds = [] {
	std::array<RecordKind, 256> kinds{};
#define PT_RECORD_KIND(name, number, structure, least, roles) kinds[number] = {least, roles};
#include "bpf/abi/record_kinds.def"
#undef PT_RECORD_KIND
	return kinds;
}();

/* Whether the record is one of those that describe Python stacks. Such a record has no time of its
 * own, because records that follow refer to it, however late they come. */
constexpr bool IsOfStacks(pt_u8 kind)
{
	return (kRecordKinds[kind].roles & PT_ROLE_STACKS) != 0;
}

} /* namespace proftrace::abi */

#endif
