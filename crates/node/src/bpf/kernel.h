/* The few fields of the kernel's structures that are read. Where they really are is looked up in
 * the running kernel's BTF when the programs are loaded (CO-RE), so only names and types matter. */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 bool;

/* Of the kernel's interface to user space: these numbers never change. */
enum { BPF_MAP_TYPE_LRU_HASH = 9 };
enum { BPF_ANY = 0 };

#define FROM_KERNEL __attribute__((preserve_access_index))

struct load_weight {
	unsigned long weight;
} FROM_KERNEL;

struct rb_node {
	struct rb_node *rb_right;
	struct rb_node *rb_left;
} FROM_KERNEL;

struct rb_root {
	struct rb_node *rb_node;
} FROM_KERNEL;

struct rb_root_cached {
	struct rb_root rb_root;
} FROM_KERNEL;

struct cfs_rq;

struct sched_entity {
	struct load_weight load;
	struct rb_node run_node;
	__u64 sum_exec_runtime;
	__u64 prev_sum_exec_runtime;
	__u64 vruntime;
	struct sched_entity *parent;
	struct cfs_rq *cfs_rq;
	struct cfs_rq *my_q;
	/* Since Linux 6.6. */
	__u64 deadline;
	__u64 slice;
	__s64 vlag;
	/* Since 6.12. */
	unsigned char sched_delayed;
	/* Since 6.17. */
	__u64 vprot;
} FROM_KERNEL;

struct rq;

struct cfs_rq {
	struct rb_root_cached tasks_timeline;
	struct sched_entity *curr;
	struct rq *rq;
} FROM_KERNEL;

struct rq {
	struct cfs_rq cfs;
} FROM_KERNEL;

struct task_struct {
	int pid;
	int tgid;
	unsigned int __state;
	struct sched_entity se;
} FROM_KERNEL;

/* Before 5.14. */
struct task_struct___old {
	volatile long state;
} FROM_KERNEL;

struct timerqueue_node {
	__s64 expires;
} FROM_KERNEL;

struct hrtimer {
	struct timerqueue_node node;
	void *function;
} FROM_KERNEL;
