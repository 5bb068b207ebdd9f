/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Gives files numbers. Each file is recorded once, with its place in the file system, while it is
 * open. */
#ifndef PROFTRACE_BPF_SYSTEM_FILES_H
#define PROFTRACE_BPF_SYSTEM_FILES_H

#include "bpf/kernel/system.bpf.h"
#include <bpf/bpf_endian.h>

/* Turns `address` into a pointer whose type the verifier knows. Reads through such a pointer are
 * plain loads, and give zero if there is no memory. Needs Linux 6.2; on older kernels, each read is
 * a call of a helper. */
extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __weak;

const volatile bool config_casts = false; /* this kernel has bpf_rdonly_cast */

/* libbpf before 0.6, which has no macro for its version, does not load programs with calls of
 * missing functions. */
#if defined(LIBBPF_MAJOR_VERSION)
#define HAS_CASTS config_casts
#define CAST_TO(type, address)                                                                     \
	((type *)bpf_rdonly_cast((const void *)(address), bpf_core_type_id_kernel(type)))
#else
#define HAS_CASTS false
#define CAST_TO(type, address) ((type *)(address))
#endif

/* Reads a number in the kernel's object at `address`. */
#define READ_FIELD(type, address, field)                                                           \
	(HAS_CASTS ? CAST_TO(type, address)->field : BPF_CORE_READ((type *)(address), field))

/* Reads a pointer in a kernel object, as a number, because the verifier allows no arithmetic on
 * pointers of known types. */
#define READ_POINTER(type, address, field)                                                         \
	read_word((__u64)(address) + bpf_core_field_offset(((type *)0)->field))

static __always_inline __u64 read_word(__u64 address)
{
	__u64 word = 0;

	/* Any type that begins with a word that is a number would do here. */
	if (HAS_CASTS)
		return CAST_TO(struct timespec64, address)->tv_sec;
	bpf_probe_read_kernel(&word, sizeof(word), (void *)address);
	return word;
}

/* Fields of struct dentry. They are side by side, unless the kernel was built with randomized
 * layouts. */
struct dentry_part {
	__u64 in_hash; /* 0 = it has no name any more, or never had any */
	__u64 parent;
	__u64 name_hash;
	__u64 name;
	__u64 inode;
};

static __always_inline void read_dentry(__u64 address, struct dentry_part *part)
{
	struct dentry *dentry = (struct dentry *)address;
	const __u64 begin = bpf_core_field_offset(dentry->d_hash.pprev);

	/* The fields are read at once, because a helper's call costs as much as all work on its
	 * result. */
	if (!HAS_CASTS && bpf_core_field_offset(dentry->d_parent) == begin + 8 &&
	    bpf_core_field_offset(dentry->d_name) == begin + 16 &&
	    bpf_core_field_offset(dentry->d_inode) == begin + 32) {
		bpf_probe_read_kernel(part, sizeof(*part), (void *)address + begin);
		return;
	}
	part->in_hash = READ_POINTER(struct dentry, address, d_hash.pprev);
	part->parent = READ_POINTER(struct dentry, address, d_parent);
	part->name_hash = READ_FIELD(struct dentry, address, d_name.hash_len);
	part->name = READ_POINTER(struct dentry, address, d_name.name);
	part->inode = READ_POINTER(struct dentry, address, d_inode);
}

/* The ids of the files that were recorded last. An id is found by a hash over everything that
 * identifies a file (hash_of_place), of which 64 bits are compared. This is an array, because the
 * lookup in an array is not a call. An entry is two words that are written one after the other
 * without a lock, so the second word has half of the hash, which tells whether both words belong
 * together. */
#define FILE_SETS 1024
#define FILE_WAYS 4

struct file_set {
	__u64 hash[FILE_WAYS];
	__u64 id[FILE_WAYS]; /* with the lower half of the hash above it; 0 = no entry */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FILE_SETS);
	__type(key, __u32);
	__type(value, struct file_set);
} system_files SEC(".maps");

/* A file is recorded again when so many other files have been recorded since. So a reader that
 * keeps the records of the last 65536 files (userspace/wire/kept_definitions.cc) has all files
 * whose ids still occur. */
#define MOST_FILES_SINCE 32768

__u32 last_file = 0;
/* A number that renames change, so that names are recorded again. */
__u32 file_generation = 0;

#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFDIR 0040000
#define S_IFCHR 0020000
#define S_IFIFO 0010000
/* include/uapi/linux/magic.h */
#define ANON_INODE_FS_MAGIC 0x09041934
#define PID_FS_MAGIC 0x50494446
#define NSFS_MAGIC 0x6e736673
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10

#define MOST_NAMES 48
#define LONGEST_NAME 256

/* The memory for finding a file's number and its name. It is not on the stack, because programs
 * have 512 bytes of stack together with all functions that they call. */
struct file_scratch {
	__u64 file; /* struct file; 0 = it is not open */
	__u64 file_mount;
	__u64 file_dentry;
	struct dentry_part file_part;
	/* The state of the walk from the file to the process's root, at which names begin. */
	__u64 dentry;
	__u64 mount;	  /* struct vfsmount */
	__u64 mount_root; /* the dentry of the mount's root */
	struct path root;
	struct dentry_part part;
	__u32 bytes;
	__u32 is_cut; /* the outermost names are missing */
	struct pt_system_file_record record;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct file_scratch);
} file_scratches SEC(".maps");

struct name_walk {
	struct file_scratch *scratch;
};

/* The offset of a struct vfsmount in its struct mount: libbpf before 0.8 has no macro for this. */
#define MOUNT_OFFSET __builtin_preserve_field_info(((struct mount *)0)->mnt, BPF_FIELD_BYTE_OFFSET)

static __always_inline __u64 mount_of(__u64 vfsmount)
{
	return vfsmount - MOUNT_OFFSET;
}

static __always_inline void enter_mount(struct file_scratch *at, __u64 dentry, __u64 mount)
{
	at->dentry = dentry;
	at->mount = mount;
	at->mount_root = READ_POINTER(struct vfsmount, mount, mnt_root);
}

/* Reads one name, or takes one step across a mount point. */
static long walk_name(__u32 i, struct name_walk *walk)
{
	struct file_scratch *at = walk->scratch;
	__u32 bytes = at->bytes;
	long got;

	if (at->dentry == (__u64)at->root.dentry && at->mount == (__u64)at->root.mnt)
		return 1;
	read_dentry(at->dentry, &at->part);
	if (at->dentry == at->mount_root || at->dentry == at->part.parent) {
		__u64 mount = mount_of(at->mount);
		__u64 above = READ_POINTER(struct mount, mount, mnt_parent);

		if (at->dentry != at->mount_root || !above || above == mount)
			return 1;
		enter_mount(at, READ_POINTER(struct mount, mount, mnt_mountpoint),
			    above + MOUNT_OFFSET);
		return 0;
	}
	at->is_cut = 1;
	barrier_var(bytes);
	if (bytes > PT_SYSTEM_FILE_BYTES - LONGEST_NAME)
		return 1;
	got =
	    bpf_probe_read_kernel_str(at->record.text + bytes, LONGEST_NAME, (void *)at->part.name);
	if (got <= 0)
		return 1;
	at->is_cut = 0;
	at->bytes = bytes + ((__u32)got & 0x1ff);
	at->dentry = at->part.parent;
	return 0;
}

/* Reads the names of the file and of its folders, innermost first. */
static __always_inline void read_names(struct file_scratch *scratch)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct name_walk walk = {.scratch = scratch};

	scratch->is_cut = 0;
	scratch->bytes = 0;
	if (scratch->file_dentry == scratch->file_part.parent &&
	    scratch->record.kind != PT_SYSTEM_FILE_DIRECTORY) {
		/* A file that has no place in a file system has only one name. */
		long got = bpf_probe_read_kernel_str(scratch->record.text, LONGEST_NAME,
						     (void *)scratch->file_part.name);

		scratch->bytes = got > 0 ? (__u32)got & 0x1ff : 0;
	} else {
		scratch->root = task->fs->root;
		enter_mount(scratch, scratch->file_dentry, scratch->file_mount);
		if (bpf_loop(MOST_NAMES, walk_name, &walk, 0) >= MOST_NAMES)
			scratch->is_cut = 1;
	}
	if (scratch->is_cut)
		scratch->record.flags |= PT_SYSTEM_FILE_CUT;
	scratch->record.bytes = scratch->bytes;
}

/* Names the file of a namespace, which has no name of its own, by the namespace's kind. */
static __always_inline void read_namespace(struct file_scratch *scratch, __u64 inode)
{
	__u64 space = READ_POINTER(struct inode, inode, i_private);
	__u64 operations = READ_POINTER(struct ns_common, space, ops);
	__u64 name = READ_POINTER(struct proc_ns_operations, operations, name);
	long got = bpf_probe_read_kernel_str(scratch->record.text, 32, (void *)name);

	scratch->record.bytes = got > 0 ? (__u32)got & 0x3f : 0;
	scratch->record.flags |= PT_SYSTEM_FILE_NAMESPACE;
}

/* Names a pidfd. On kernels that have a file system for pidfds, these have no name of their own. */
static __always_inline void name_process(struct file_scratch *scratch)
{
	__builtin_memcpy(scratch->record.text, "[pidfd]", 8);
	scratch->record.bytes = 8;
}

static __always_inline __u8 kind_of_inode(__u32 mode, __u64 file_system)
{
	if (file_system == ANON_INODE_FS_MAGIC || file_system == PID_FS_MAGIC ||
	    file_system == NSFS_MAGIC)
		return PT_SYSTEM_FILE_ANONYMOUS;
	switch (mode & S_IFMT) {
	case S_IFREG:
		return PT_SYSTEM_FILE_REGULAR;
	case S_IFDIR:
		return PT_SYSTEM_FILE_DIRECTORY;
	case S_IFCHR:
	case S_IFBLK:
		return PT_SYSTEM_FILE_DEVICE;
	case S_IFIFO:
		return PT_SYSTEM_FILE_PIPE;
	case S_IFSOCK:
		return PT_SYSTEM_FILE_SOCKET;
	}
	return mode & S_IFMT ? PT_SYSTEM_FILE_OTHER : PT_SYSTEM_FILE_ANONYMOUS;
}

static __always_inline __u64 sock_of(__u64 file)
{
	__u64 socket = READ_POINTER(struct file, file, private_data);

	return READ_POINTER(struct socket, socket, sk);
}

#define READ_SOCK(place, field) READ_FIELD(struct sock, place, __sk_common.field)

/* Returns a number that changes when the socket is connected, or gets an address of its own. */
static __always_inline __u64 peer_of(__u64 sock)
{
	__u16 family = READ_SOCK(sock, skc_family);
	__u32 ports; /* skc_dport and skc_num, side by side */
	__u32 address;

	if (family == AF_UNIX)
		return READ_POINTER(struct unix_sock, sock, peer) +
		       READ_POINTER(struct unix_sock, sock, addr) * 31;
	ports = READ_SOCK(sock, skc_portpair);
	address = family == AF_INET6 ? READ_SOCK(sock, skc_v6_daddr.in6_u.u6_addr32[3])
				     : READ_SOCK(sock, skc_daddr);
	return (__u64)ports << 32 | address;
}

static __always_inline void read_socket(__u64 file, struct pt_system_file_record *record)
{
	struct pt_socket_place *place = (struct pt_socket_place *)record->text;
	__u64 address = sock_of(file);
	struct sock *sock = (struct sock *)address;
	__u32 bytes = sizeof(*place);

	__builtin_memset(place, 0, sizeof(*place));
	place->family = READ_SOCK(address, skc_family);
	place->type = READ_FIELD(struct sock, address, sk_type);
	if (place->family == AF_INET || place->family == AF_INET6) {
		place->local_port = READ_SOCK(address, skc_num);
		place->peer_port = bpf_ntohs(READ_SOCK(address, skc_dport));
	}
	if (place->family == AF_INET) {
		bpf_core_read(place->local, 4, &sock->__sk_common.skc_rcv_saddr);
		bpf_core_read(place->peer, 4, &sock->__sk_common.skc_daddr);
	} else if (place->family == AF_INET6) {
		bpf_core_read(place->local, 16, &sock->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(place->peer, 16, &sock->__sk_common.skc_v6_daddr);
	} else if (place->family == AF_UNIX) {
		__u64 name = READ_POINTER(struct unix_sock, address, addr);
		__u64 peer = READ_POINTER(struct unix_sock, address, peer);

		if (!name && peer)
			name = READ_POINTER(struct unix_sock, peer, addr);
		if (name) {
			/* A struct sockaddr_un has the family, then 108 bytes. */
			struct unix_address *of_file = (struct unix_address *)name;

			bpf_probe_read_kernel(record->text + sizeof(*place), 108,
					      (char *)of_file->name + sizeof(__u16));
			bytes += 108;
		}
	}
	record->bytes = bytes;
}

/* Whether the file has no name any more. A file that never had a place is its own parent. */
static __always_inline bool is_deleted(__u64 dentry, struct dentry_part *part)
{
	return !part->in_hash && part->parent != dentry;
}

/* Writes the record of a file. Returns whether there was room for it. */
static __always_inline int announce_file(struct file_scratch *scratch, __u32 id)
{
	struct pt_system_file_record *record;
	__u64 inode, block, file_system, size;

	record = &scratch->record;
	read_dentry(scratch->file_dentry, &scratch->file_part);
	inode = scratch->file_part.inode;
	fill_system_head(&record->head, bpf_get_current_task_btf(), bpf_ktime_get_ns(), id, 0,
			 PT_SYSTEM_FILE, 0);
	record->inode = READ_FIELD(struct inode, inode, i_ino);
	block = READ_POINTER(struct inode, inode, i_sb);
	record->device = READ_FIELD(struct super_block, block, s_dev);
	file_system = READ_FIELD(struct super_block, block, s_magic);
	record->kind = kind_of_inode(READ_FIELD(struct inode, inode, i_mode), file_system);
	record->flags =
	    is_deleted(scratch->file_dentry, &scratch->file_part) ? PT_SYSTEM_FILE_DELETED : 0;
	if (record->kind == PT_SYSTEM_FILE_SOCKET)
		read_socket(scratch->file, record);
	else if (file_system == NSFS_MAGIC)
		read_namespace(scratch, inode);
	else if (file_system == PID_FS_MAGIC)
		name_process(scratch);
	else
		read_names(scratch);
	size = (PT_SYSTEM_FILE_HEAD_BYTES + record->bytes + 7) & ~7ULL;
	record->head.words = size / 8;
	barrier_var(size);
	if (size > sizeof(*record))
		return 0;
	return copy_record(record, size);
}

/* Hashes everything that identifies a file, because the kernel uses its objects again for other
 * files. `file`: 0 if the file is not open. The file's name depends on the mount and on the root
 * from which it is seen. The factors are odd, with random bits. This is not inline, because
 * place_id() needs the stack for its later calls. */
__noinline __u64 hash_of_place(__u64 dentry, __u64 mount, __u64 file)
{
	struct fs_struct *fs = bpf_get_current_task_btf()->fs;
	struct dentry_part part;
	__u64 inode, hash;

	read_dentry(dentry, &part);
	inode = part.inode;
	hash = dentry * 0x9e3779b97f4a7c15ULL + part.parent * 0xc2b2ae3d27d4eb4fULL +
	       part.name_hash * 0x165667b19e3779f9ULL + inode * 0xa0761d6478bd642fULL +
	       READ_FIELD(struct inode, inode, i_ino) * 0xe7037ed1a0b428dbULL +
	       file_generation * 0xd6e8feb86659fd93ULL + mount * 0xff51afd7ed558ccdULL +
	       read_word((__u64)&fs->root.dentry) * 0x8ebc6af09c88c6e3ULL +
	       read_word((__u64)&fs->root.mnt) * 0x589965cc75374cc3ULL +
	       is_deleted(dentry, &part) * 0x1d8e4e27c47d124fULL;
	/* Sockets have no name in a directory: their dentry is its own parent. A socket counts
	 * as another file when it has been connected. */
	if (file && part.parent == dentry &&
	    (READ_FIELD(struct inode, inode, i_mode) & S_IFMT) == S_IFSOCK)
		hash += peer_of(sock_of(file)) * 0x8ebc6af09c88c6e3ULL;
	hash = (hash ^ hash >> 32) * 0xff51afd7ed558ccdULL;
	return hash ^ hash >> 32;
}

static __always_inline struct file_set *set_of(__u64 hash)
{
	__u32 set = hash >> 54;

	return bpf_map_lookup_elem(&system_files, &set);
}

static __always_inline __u32 id_in_set(struct file_set *set, __u64 hash)
{
	__u32 i;

#pragma unroll
	for (i = 0; i < FILE_WAYS; ++i) {
		__u64 id = set->id[i];

		if (set->hash[i] == hash && id >> 32 == (__u32)hash &&
		    last_file - (__u32)id < MOST_FILES_SINCE)
			return id;
	}
	return 0;
}

/* Puts the id into the set, in place of the lowest id: a free entry, or else the file that was
 * recorded first. */
static __always_inline void put_into_set(struct file_set *set, __u64 hash, __u32 id)
{
	__u32 oldest = set->id[0];
	__u32 way = 0, i;

#pragma unroll
	for (i = 1; i < FILE_WAYS; ++i) {
		if ((__u32)set->id[i] < oldest) {
			oldest = set->id[i];
			way = i;
		}
	}
	way &= FILE_WAYS - 1;
	set->hash[way] = hash;
	set->id[way] = id | hash << 32;
}

/* Records a file and returns its new id, so that the file's record comes before all records with
 * the id. Returns 0 if there was no room. `hash`: as hash_of_place() returns it. */
__noinline int tell_file(__u64 dentry, __u64 mount, __u64 file, __u64 hash)
{
	__u32 zero = 0;
	struct file_scratch *scratch = bpf_map_lookup_elem(&file_scratches, &zero);
	struct file_set *set;
	__u32 id;

	if (!scratch)
		return 0;
	scratch->file = file;
	scratch->file_mount = mount;
	scratch->file_dentry = dentry;
	id = __sync_fetch_and_add(&last_file, 1) + 1;
	if (!announce_file(scratch, id)) {
		__sync_fetch_and_add(&system_lost, 1);
		return 0;
	}
	set = set_of(hash);
	if (set)
		put_into_set(set, hash, id);
	return id;
}

/* Returns the id of a place in the file system. `file`: 0 if it is not open. This is not inline, so
 * that its stack frame is not a part of its callers' frames. */
__noinline int place_id(__u64 dentry, __u64 mount, __u64 file)
{
	struct file_set *set;
	__u64 hash;
	__u32 id;

	if (!dentry)
		return 0;
	hash = hash_of_place(dentry, mount, file);
	set = set_of(hash);
	if (!set)
		return 0;
	id = id_in_set(set, hash);
	return likely(id) ? id : tell_file(dentry, mount, file, hash);
}

static __always_inline __u32 id_of_file(__u64 file)
{
	if (!file)
		return 0;
	return place_id(READ_POINTER(struct file, file, f_path.dentry),
			READ_POINTER(struct file, file, f_path.mnt), file);
}

/* Returns the id of the file behind a descriptor of `task`; 0 = there is none. */
static __always_inline __u32 id_of_descriptor(struct task_struct *task, __u32 fd)
{
	/* The verifier knows the type of `task`, so these are plain loads. */
	struct fdtable *table = task->files->fdt;

	if (fd >= table->max_fds)
		return 0;
	return id_of_file(read_word((__u64)(table->fd + fd)));
}

static __always_inline __u32 id_of_current_directory(struct task_struct *task)
{
	struct fs_struct *fs = task->fs;

	return place_id(read_word((__u64)&fs->pwd.dentry), read_word((__u64)&fs->pwd.mnt), 0);
}

#endif
