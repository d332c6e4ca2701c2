//! Very many clients of a small server: what only a crowd brings out.

use seawall_sim::Plan;

/// Ten thousand clients share one core. Credits are worth a message each when there is nobody else
/// to carry them, but the messages must not take the core from the requests.
#[test]
fn messages_about_credits_do_not_crowd_out_the_requests() {
    let text = "
        [scenario]
        slo = '1200us'
        network.delay = 'const:6us'
        run = { warm_up = '300ms', time = '200ms' }
        workload = { clients = 10000, service = 'exp:100us' }
        admission.credit.revoke_beyond = 0.125
        [scenario.server]
        cores = 1
        budget = 'auto'
        costs = { receive = '3us', request = '1us', reply = '1us', send = '4us' }
        [[sweep]]
        key = 'workload.load'
        values = ['0.9x', '1.2x', '2x']";
    let plan = Plan::read(text, &[], |_| Err("nothing is included".into())).unwrap();
    for run in plan.run(|_, _| {}).unwrap() {
        let share = run.figures.goodput / run.capacity;
        assert!(share > 0.7, "{}: goodput is {share:.2} of the capacity", run.params);
        let messages = run.credits / run.figures.throughput;
        assert!(messages < 2.0, "{}: {messages:.1} messages for each request", run.params);
    }
}
