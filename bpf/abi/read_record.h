/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records as they lie in a buffer: at any address, and of any length. C++ only. */
#ifndef PROFTRACE_BPF_ABI_READ_RECORD_H
#define PROFTRACE_BPF_ABI_READ_RECORD_H

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace proftrace
{

/* Returns a record of type T from `bytes`. Members that a shorter record lacks are 0. */
template <typename T> T ReadRecord(std::span<const std::byte> bytes)
{
	T record{};

	std::memcpy(&record, bytes.data(), std::min(bytes.size(), sizeof(T)));
	return record;
}

} /* namespace proftrace */

#endif
