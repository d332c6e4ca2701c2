/* Copies a CPU's run queue when asked, and learns how threads usually run and sleep
 * (LIBROS, section IV-B). Nothing here changes what the kernel does. */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define ENTITIES_MAX 256 /* a power of two */
#define CPUS_MAX 256     /* a power of two */
#define TASKS_MAX 4096   /* whose habits are known; the one not used for longest makes room */
#define GROUPS_MAX 8     /* levels of groups above one that sleeps */

/* Who sleeps for longer than that is not expected (ns). */
#define IDLE_MAX 1000000000ull
/* Weight of what is newest, as its inverse: the paper's alpha of 0.05. */
#define HABIT 20

#define TASK_DEAD 0x80

enum { RUNNING, WAITING, LEAVING, ASLEEP };

struct bpf_map;

/* A thread that has slept. */
struct habit {
	__u64 since; /* it woke, or went to sleep (ns) */
	__u64 ran;   /* its CPU time when it woke (ns) */
	__u64 idle;  /* moving averages; 0 until there is one (ns) */
	__u64 burst;
	__u64 se;
	__u32 cpu;
	__u32 asleep;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TASKS_MAX);
	__type(key, __u32);
	__type(value, struct habit);
} habits SEC(".maps");

/* A thread, or a group. */
struct entity {
	__u64 address;
	__u64 queue; /* that it is in */
	__u64 own;   /* a group's queue */
	__u64 weight;
	__s64 vruntime;
	__s64 deadline;
	__s64 protect;
	__s64 lag;
	__u64 slice;
	__u64 accounted; /* of one that runs, since it was chosen (ns) */
	__u64 idle;
	__u64 burst;
	__u64 elapsed; /* since it went to sleep, or CPU time since it woke (ns) */
	__u32 tid;
	__u32 state;
};

struct snapshot {
	__u64 now;
	__u64 switched; /* when the thread that runs was chosen */
	__u64 tick;     /* when one of the CPU's timer interrupts was due */
	__u32 cpu;
	__u32 count;
	__u32 lost; /* for want of space */
	__u32 waiting;
	__u32 chosen;
	__u32 eevdf;
	struct entity entities[ENTITIES_MAX];
};

/* One that waits, and when it got a CPU. */
struct watch {
	__u32 tid;
	__u32 cpu;
	__u64 ran;
};

/* The kernel's function that a timer calls for each tick. */
const volatile __u64 tick_function = 0;

/* Whether a thread is to be chosen and watched, once, and of which process; 0 for any. */
__u32 watching = 0;
__u32 watched_process = 0;
struct snapshot snapshot = {};
struct watch watch = {};
__u64 switched[CPUS_MAX] = {};
__u64 ticked[CPUS_MAX] = {};
__u64 tick_gap = 0; /* the shortest time between two ticks of a CPU */

static __u64 average(__u64 old, __u64 sample)
{
	if (old == 0)
		return sample ?: 1;
	return sample > old ? old + (sample - old) / HABIT : old - (old - sample) / HABIT;
}

static __u64 state_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ((struct task_struct___old *)task, state);
}

static void on_sleep(struct task_struct *task, __u32 cpu, __u64 now)
{
	__u32 tid = task->pid;
	struct habit *habit = bpf_map_lookup_elem(&habits, &tid);
	__u64 ran = task->se.sum_exec_runtime;

	if (!habit) {
		struct habit first = { .since = now, .cpu = cpu, .asleep = 1 };

		first.se = (__u64)__builtin_preserve_access_index(&task->se);
		bpf_map_update_elem(&habits, &tid, &first, BPF_ANY);
		return;
	}
	if (habit->ran)
		habit->burst = average(habit->burst, ran - habit->ran);
	habit->since = now;
	habit->cpu = cpu;
	habit->asleep = 1;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 now = bpf_ktime_get_ns();
	__u32 tid = prev->pid;
	__u64 state = state_of(prev);

	switched[cpu & (CPUS_MAX - 1)] = now;
	if (watch.tid && watch.tid == next->pid && !watch.ran) {
		watch.cpu = cpu;
		watch.ran = now;
	}
	if (!tid || preempted || !state)
		return 0;
	if (state & TASK_DEAD)
		bpf_map_delete_elem(&habits, &tid); /* this is the last of it */
	else
		on_sleep(prev, cpu, now);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	__u32 tid = task->pid;
	struct habit *habit = bpf_map_lookup_elem(&habits, &tid);
	__u64 now = bpf_ktime_get_ns();

	if (!habit || !habit->asleep)
		return 0;
	habit->idle = average(habit->idle, now - habit->since);
	habit->since = now;
	habit->ran = task->se.sum_exec_runtime;
	habit->asleep = 0;
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_timer, struct hrtimer *timer)
{
	__u32 cpu = bpf_get_smp_processor_id() & (CPUS_MAX - 1);
	__u64 due = timer->node.expires;
	__u64 gap = due - ticked[cpu];

	if ((__u64)timer->function != tick_function)
		return 0;
	if (ticked[cpu] && gap && (!tick_gap || gap < tick_gap))
		tick_gap = gap;
	ticked[cpu] = due;
	return 0;
}

static void push(struct snapshot *copy, struct sched_entity *se, __u32 state)
{
	__u32 index = copy->count;

	if (!se)
		return;
	if (index >= ENTITIES_MAX) {
		copy->lost++;
		return;
	}
	copy->entities[index & (ENTITIES_MAX - 1)].address = (__u64)se;
	copy->entities[index & (ENTITIES_MAX - 1)].state = state;
	copy->count = index + 1;
}

static void push_node(struct snapshot *copy, struct rb_node *node)
{
	if (node)
		push(copy, (void *)node - bpf_core_field_offset(struct sched_entity, run_node), WAITING);
}

static void push_queue(struct snapshot *copy, struct cfs_rq *queue)
{
	push(copy, BPF_CORE_READ(queue, curr), RUNNING);
	push_node(copy, BPF_CORE_READ(queue, tasks_timeline.rb_root.rb_node));
}

static void read_times(struct entity *it, struct sched_entity *se)
{
	it->queue = (__u64)BPF_CORE_READ(se, cfs_rq);
	it->own = (__u64)BPF_CORE_READ(se, my_q);
	it->weight = BPF_CORE_READ(se, load.weight);
	it->vruntime = BPF_CORE_READ(se, vruntime);
	it->accounted =
		BPF_CORE_READ(se, sum_exec_runtime) - BPF_CORE_READ(se, prev_sum_exec_runtime);
	it->deadline = it->slice = it->lag = it->protect = 0;
	if (!bpf_core_field_exists(se->deadline))
		return;
	it->deadline = BPF_CORE_READ(se, deadline);
	it->slice = BPF_CORE_READ(se, slice);
	it->lag = BPF_CORE_READ(se, vlag);
	/* One that runs keeps here what protects it: up to 6.16, its deadline while that is the first. */
	if (bpf_core_field_exists(se->vprot))
		it->protect = BPF_CORE_READ(se, vprot);
	else
		it->protect = it->lag == it->deadline ? it->deadline : it->vruntime;
	if (bpf_core_field_exists(se->sched_delayed) && it->state == WAITING &&
	    BPF_CORE_READ(se, sched_delayed))
		it->state = LEAVING;
}

static void read_task(struct snapshot *copy, struct entity *it, struct sched_entity *se)
{
	struct task_struct *task = (void *)se - bpf_core_field_offset(struct task_struct, se);
	struct habit *habit;
	__u32 tid = BPF_CORE_READ(task, pid);

	it->tid = tid;
	it->idle = it->burst = it->elapsed = 0;
	habit = bpf_map_lookup_elem(&habits, &tid);
	if (habit) {
		it->idle = habit->idle;
		it->burst = habit->burst;
		it->elapsed = habit->asleep ? copy->now - habit->since
					    : BPF_CORE_READ(se, sum_exec_runtime) - habit->ran;
	}
	if (it->state != WAITING || !watching)
		return;
	if (watched_process && BPF_CORE_READ(task, tgid) != watched_process)
		return;
	/* Each of those that wait is chosen with the same probability. */
	copy->waiting++;
	if (bpf_get_prandom_u32() % copy->waiting == 0)
		copy->chosen = tid;
}

static long visit(__u32 index, void *unused)
{
	struct snapshot *copy = &snapshot;
	struct entity *it = &copy->entities[index & (ENTITIES_MAX - 1)];
	struct sched_entity *se;

	if (index >= copy->count)
		return 1;
	se = (void *)it->address;
	read_times(it, se);
	if (it->state == WAITING || it->state == LEAVING) {
		push_node(copy, BPF_CORE_READ(se, run_node.rb_left));
		push_node(copy, BPF_CORE_READ(se, run_node.rb_right));
	}
	if (!it->own)
		read_task(copy, it, se);
	else if (it->state != ASLEEP)
		push_queue(copy, (void *)it->own);
	return 0;
}

/* Adds one that sleeps on this CPU, and the groups it is in, which may sleep with it. */
static long add_sleeper(struct bpf_map *map, const void *tid, struct habit *habit, void *unused)
{
	struct snapshot *copy = &snapshot;
	struct sched_entity *se = (void *)habit->se;

	if (!habit->asleep || habit->cpu != copy->cpu || !habit->idle || !habit->burst ||
	    habit->idle > IDLE_MAX || copy->now - habit->since > 4 * IDLE_MAX)
		return 0;
	for (int level = 0; level < GROUPS_MAX && se; level++) {
		push(copy, se, ASLEEP);
		se = BPF_CORE_READ(se, parent);
	}
	return 0;
}

/* Run on the CPU in question, between two of its instructions: it cannot switch meanwhile. */
SEC("raw_tp")
int take_snapshot(void *unused)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct rq *rq = current->se.cfs_rq->rq;
	struct snapshot *copy = &snapshot;
	struct cfs_rq *root = __builtin_preserve_access_index(&rq->cfs);

	copy->cpu = bpf_get_smp_processor_id();
	copy->now = bpf_ktime_get_ns();
	copy->switched = switched[copy->cpu & (CPUS_MAX - 1)];
	copy->tick = ticked[copy->cpu & (CPUS_MAX - 1)];
	copy->eevdf = bpf_core_field_exists(current->se.deadline);
	copy->count = copy->lost = copy->waiting = copy->chosen = 0;
	push_queue(copy, root);
	bpf_for_each_map_elem(&habits, add_sleeper, 0, 0);
	bpf_loop(ENTITIES_MAX, visit, 0, 0);
	if (watching) {
		watch.ran = 0;
		watch.tid = copy->chosen;
		watching = 0;
	}
	return 0;
}
