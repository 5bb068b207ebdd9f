/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Files by number: each is told of once, with its place in the file system, while it is open. */
#ifndef PROFTRACE_BPF_SYSTEM_FILES_H
#define PROFTRACE_BPF_SYSTEM_FILES_H

#include "bpf/system.bpf.h"
#include <bpf/bpf_endian.h>

/* By all of this a file is the same: kernel objects are used again for others. */
struct file_key {
	__u64 dentry;
	__u64 parent;
	__u64 name_hash;
	__u64 inode;
	__u64 number;
	__u64 peer; /* of a socket: connected, it is another one */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct file_key);
	__type(value, __u32);
} system_files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pt_system_file_record);
} file_buffers SEC(".maps");

__u32 last_file = 0;
/* Changed by renames: names are told again. */
__u32 file_generation = 0;

#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFDIR 0040000
#define S_IFCHR 0020000
#define S_IFIFO 0010000
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10

#define MOST_NAMES 48
#define LONGEST_NAME 256

struct name_walk {
	__u64 dentry;
	__u64 mount;	  /* struct vfsmount */
	struct path root; /* of the process: names from there on */
	__u32 bytes;
	__u32 is_cut;
	struct pt_system_file_record *record;
};

/* Where a struct vfsmount is in its struct mount: libbpf before 0.8 has no name for this. */
#define MOUNT_OFFSET __builtin_preserve_field_info(((struct mount *)0)->mnt, BPF_FIELD_BYTE_OFFSET)

static __always_inline __u64 mount_of(__u64 vfsmount)
{
	return vfsmount - MOUNT_OFFSET;
}

/* One name, or one step over a mount point. */
static long walk_name(__u32 i, struct name_walk *walk)
{
	struct dentry *dentry = (struct dentry *)walk->dentry;
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
	struct vfsmount *at_mount = (struct vfsmount *)walk->mount;
	struct dentry *root = BPF_CORE_READ(at_mount, mnt_root);
	__u32 at = walk->bytes;
	long got;

	if (walk->dentry == (__u64)walk->root.dentry && walk->mount == (__u64)walk->root.mnt)
		return 1;
	if (dentry == root || dentry == parent) {
		struct mount *mount = (struct mount *)mount_of(walk->mount);
		struct mount *above = BPF_CORE_READ(mount, mnt_parent);

		if (dentry != root || !above || above == mount)
			return 1;
		walk->dentry = (__u64)BPF_CORE_READ(mount, mnt_mountpoint);
		walk->mount = (__u64)above + MOUNT_OFFSET;
		return 0;
	}
	walk->is_cut = 1;
	if (at > PT_SYSTEM_FILE_BYTES - LONGEST_NAME)
		return 1;
	got = bpf_probe_read_kernel_str(walk->record->text + at, LONGEST_NAME,
					BPF_CORE_READ(dentry, d_name.name));
	if (got <= 0)
		return 1;
	walk->is_cut = 0;
	walk->bytes = at + ((__u32)got & 0x1ff);
	walk->dentry = (__u64)parent;
	return 0;
}

static __always_inline __u8 kind_of_mode(__u32 mode)
{
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
	return mode ? PT_SYSTEM_FILE_OTHER : PT_SYSTEM_FILE_ANONYMOUS;
}

static __always_inline struct sock *sock_of(__u64 file)
{
	struct socket *socket = BPF_CORE_READ((struct file *)file, private_data);

	return BPF_CORE_READ(socket, sk);
}

/* Something that changes when the socket is connected. */
static __always_inline __u64 peer_of(struct sock *sock)
{
	__u16 family = BPF_CORE_READ(sock, __sk_common.skc_family);
	__u64 port = BPF_CORE_READ(sock, __sk_common.skc_dport) |
		     (__u64)BPF_CORE_READ(sock, __sk_common.skc_num) << 16;

	if (family == AF_UNIX)
		return (__u64)BPF_CORE_READ((struct unix_sock *)sock, peer);
	if (family == AF_INET6)
		return port << 32 |
		       BPF_CORE_READ(sock, __sk_common.skc_v6_daddr.in6_u.u6_addr32[3]);
	return port << 32 | BPF_CORE_READ(sock, __sk_common.skc_daddr);
}

static __always_inline void read_socket(__u64 file, struct pt_system_file_record *record)
{
	struct pt_socket_place *place = (struct pt_socket_place *)record->text;
	struct sock *sock = sock_of(file);
	__u32 bytes = sizeof(*place);

	__builtin_memset(place, 0, sizeof(*place));
	place->family = BPF_CORE_READ(sock, __sk_common.skc_family);
	place->type = BPF_CORE_READ(sock, sk_type);
	if (place->family == AF_INET || place->family == AF_INET6) {
		place->local_port = BPF_CORE_READ(sock, __sk_common.skc_num);
		place->peer_port = bpf_ntohs(BPF_CORE_READ(sock, __sk_common.skc_dport));
	}
	if (place->family == AF_INET) {
		bpf_core_read(place->local, 4, &sock->__sk_common.skc_rcv_saddr);
		bpf_core_read(place->peer, 4, &sock->__sk_common.skc_daddr);
	} else if (place->family == AF_INET6) {
		bpf_core_read(place->local, 16, &sock->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(place->peer, 16, &sock->__sk_common.skc_v6_daddr);
	} else if (place->family == AF_UNIX) {
		struct unix_address *own = BPF_CORE_READ((struct unix_sock *)sock, addr);
		struct sock *peer = BPF_CORE_READ((struct unix_sock *)sock, peer);
		struct unix_address *address = own;

		if (!address && peer)
			address = BPF_CORE_READ((struct unix_sock *)peer, addr);
		if (address) {
			/* struct sockaddr_un: the family, then 108 bytes. */
			bpf_probe_read_kernel(record->text + sizeof(*place), 108,
					      (char *)address->name + sizeof(__u16));
			bytes += 108;
		}
	}
	record->bytes = bytes;
}

/* Tells of a file; whether there was room. */
static __noinline int announce_file(struct file_key *key, __u64 file, __u64 mount, __u32 id)
{
	__u32 zero = 0;
	struct pt_system_file_record *record = bpf_map_lookup_elem(&file_buffers, &zero);
	struct dentry *dentry;
	struct inode *inode;
	__u64 size;

	if (!record || !key)
		return 0;
	inode = (struct inode *)key->inode;
	dentry = (struct dentry *)key->dentry;
	fill_system_head(&record->head, (struct task_struct *)bpf_get_current_task_btf(),
			 bpf_ktime_get_ns(), id, 0, PT_SYSTEM_FILE, 0);
	record->inode = key->number;
	record->device = BPF_CORE_READ(inode, i_sb, s_dev);
	record->kind = kind_of_mode(BPF_CORE_READ(inode, i_mode));
	record->is_cut = 0;
	record->bytes = 0;
	if (record->kind == PT_SYSTEM_FILE_SOCKET) {
		read_socket(file, record);
	} else {
		struct name_walk walk = {.dentry = key->dentry, .mount = mount, .record = record};

		struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
		struct fs_struct *fs = BPF_CORE_READ(task, fs);

		bpf_core_read(&walk.root, sizeof(walk.root), &fs->root);
		if (bpf_loop(MOST_NAMES, walk_name, &walk, 0) >= MOST_NAMES)
			walk.is_cut = 1;
		record->is_cut = walk.is_cut;
		if (!walk.bytes && key->dentry == key->parent &&
		    record->kind != PT_SYSTEM_FILE_DIRECTORY) {
			/* Of a file without a place, its only name. */
			long got = bpf_probe_read_kernel_str(record->text, LONGEST_NAME,
							     BPF_CORE_READ(dentry, d_name.name));

			walk.bytes = got > 0 ? (__u32)got & 0x1ff : 0;
		}
		record->bytes = walk.bytes;
	}
	size = (PT_SYSTEM_FILE_HEAD_BYTES + record->bytes + 7) & ~7ULL;
	record->head.words = size / 8;
	asm volatile("" : "+r"(size));
	if (size > sizeof(*record))
		return 0;
	return bpf_ringbuf_output(&system_ring, record, size, BPF_RB_NO_WAKEUP) == 0;
}

/* A place in the file system; `file`: 0 where it is not open. */
static __noinline int place_id(__u64 dentry_address, __u64 mount, __u64 file)
{
	struct dentry *dentry = (struct dentry *)dentry_address;
	struct file_key key = {};
	struct inode *inode;
	__u32 *known;
	__u32 id;

	if (!dentry_address)
		return 0;
	inode = BPF_CORE_READ(dentry, d_inode);
	key.dentry = dentry_address;
	key.parent = (__u64)BPF_CORE_READ(dentry, d_parent);
	key.name_hash = BPF_CORE_READ(dentry, d_name.hash_len) ^ (__u64)file_generation << 24;
	key.inode = (__u64)inode;
	key.number = BPF_CORE_READ(inode, i_ino);
	if (file && (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFSOCK)
		key.peer = peer_of(sock_of(file));
	known = bpf_map_lookup_elem(&system_files, &key);
	if (likely(known))
		return *known;
	id = __sync_fetch_and_add(&last_file, 1) + 1;
	if (!announce_file(&key, file, mount, id)) {
		__sync_fetch_and_add(&system_lost, 1);
		return 0;
	}
	bpf_map_update_elem(&system_files, &key, &id, BPF_ANY);
	return id;
}

static __always_inline __u32 id_of_file(__u64 file)
{
	struct path path = {};

	if (!file || bpf_core_read(&path, sizeof(path), &((struct file *)file)->f_path))
		return 0;
	return place_id((__u64)path.dentry, (__u64)path.mnt, file);
}

/* Of the current thread's descriptor. */
static __always_inline __u32 id_of_descriptor(struct task_struct *task, __u32 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files;
	__u64 file = 0;

	if (fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	files = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return id_of_file(file);
}

static __always_inline __u32 id_of_current_directory(struct task_struct *task)
{
	struct fs_struct *fs = BPF_CORE_READ(task, fs);
	struct path path = {};

	bpf_core_read(&path, sizeof(path), &fs->pwd);
	return place_id((__u64)path.dentry, (__u64)path.mnt, 0);
}

#endif
