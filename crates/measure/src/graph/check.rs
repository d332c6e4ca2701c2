//! What makes no sense in a table is refused where it is read.

use std::time::Duration;

use super::{Graph, GraphError, Service, Step};
use crate::duration::Text;

/// Services of a graph at most: a live run starts a process for each.
pub const SERVICES_MAX: usize = 64;

/// Steps of a service at most, those in branches included.
pub const STEPS_MAX: usize = 256;

/// Parallel steps within branches of parallel steps at most.
pub const BRANCH_DEPTH_MAX: usize = 8;

/// Services that may wait for one another in a row at most.
pub const CALL_DEPTH_MAX: usize = 16;

/// Visits to all services that one job may make: a table of few lines can ask for billions.
pub const VISITS_MAX: f64 = 10_000.0;

/// Connections of a pool at most.
pub const POOL_MAX: u32 = 100_000;

/// Units of a service at most.
pub const UNITS_MAX: u32 = 4_096;

/// Mean work of one step at most.
pub const WORK_MAX: Duration = Duration::from_secs(10);

impl Graph {
    /// Checks a graph that was made otherwise than by [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// Names the service and the step, what is wrong with it and what is allowed.
    pub fn check(&self) -> Result<(), GraphError> {
        check_name("name", &self.name)?;
        let count = self.services.len();
        if !(1..=SERVICES_MAX).contains(&count) {
            let problem = format!("there are {count}; allowed is 1 to {SERVICES_MAX}");
            return Err(nonsense("service", problem));
        }
        for (index, service) in self.services.iter().enumerate() {
            check_name(&format!("service {}", index + 1), &service.name)?;
            if self.services[..index].iter().any(|other| other.name == service.name) {
                let problem = format!("there are two of the name {}", service.name);
                return Err(nonsense("service", problem));
            }
        }
        self.services.iter().try_for_each(|service| self.check_service(service))?;
        self.check_cycles()?;
        self.check_reach()
    }

    fn check_service(&self, service: &Service) -> Result<(), GraphError> {
        let at = |part: &str| format!("service {}, {part}", service.name);
        if !(1..=UNITS_MAX).contains(&service.units) {
            let problem = format!("they are {}; allowed is 1 to {UNITS_MAX}", service.units);
            return Err(nonsense(at("units"), problem));
        }
        self.check_steps(service, &service.steps, "step", BRANCH_DEPTH_MAX)?;
        let count = count(&service.steps);
        if count > STEPS_MAX {
            let problem = format!("there are {count}; allowed is 0 to {STEPS_MAX}");
            return Err(nonsense(at("steps"), problem));
        }
        let callees = service.callees();
        for (callee, size) in &service.pools {
            let pool = at(&format!("pool to {callee}"));
            if !callees.contains(&callee.as_str()) {
                let problem = match &callees[..] {
                    [] => "the service calls nobody, so it needs no pool".into(),
                    some => format!("the service does not call it; it calls {}", some.join(", ")),
                };
                return Err(nonsense(pool, problem));
            }
            if !(1..=POOL_MAX).contains(size) {
                let problem = format!("it has {size} connections; allowed is 1 to {POOL_MAX}");
                return Err(nonsense(pool, problem));
            }
        }
        if service.store.is_some() && !callees.is_empty() {
            let problem = format!("a store calls nobody, and this one calls {}", callees[0]);
            return Err(nonsense(at("store"), problem));
        }
        Ok(())
    }

    fn check_steps(
        &self,
        service: &Service,
        steps: &[Step],
        within: &str,
        depth: usize,
    ) -> Result<(), GraphError> {
        for (number, step) in (1..).zip(steps) {
            let place = format!("{within} {number}");
            let refuse = |problem: String| {
                Err(nonsense(format!("service {}, {place}", service.name), problem))
            };
            let kinds = [step.work.is_some(), step.call.is_some(), !step.parallel.is_empty()];
            match kinds.into_iter().filter(|is_there| *is_there).count() {
                0 => return refuse("it says nothing; give one of work, call, parallel".into()),
                1 => {}
                _ => return refuse("it says several; give one of work, call, parallel".into()),
            }
            if let Some(chance) = step.chance.filter(|chance| !(0.0..=1.0).contains(chance)) {
                return refuse(format!("chance is {chance}; allowed is 0 to 1"));
            }
            if let Some(work) = step.work.filter(|work| work.mean() > WORK_MAX) {
                let most = Text(WORK_MAX);
                return refuse(format!("work is {work}; allowed is a mean of up to {most}"));
            }
            if let Some(callee) = &step.call
                && self.service(callee).is_none()
            {
                let names: Vec<&str> = self.services.iter().map(|other| &*other.name).collect();
                return refuse(format!("calls {callee}; there are {}", names.join(", ")));
            }
            if !step.parallel.is_empty() && depth == 0 {
                return refuse(format!(
                    "parallel more than {BRANCH_DEPTH_MAX} deep is not allowed"
                ));
            }
            for (branch, steps) in (1..).zip(&step.parallel) {
                let place = format!("{place}, branch {branch}");
                if steps.is_empty() {
                    return refuse(format!("branch {branch} is empty; give it at least one step"));
                }
                self.check_steps(service, steps, &format!("{place}, step"), depth - 1)?;
            }
        }
        Ok(())
    }

    /// Who waits for itself waits for ever.
    fn check_cycles(&self) -> Result<(), GraphError> {
        fn follow<'a>(
            graph: &'a Graph,
            name: &'a str,
            path: &mut Vec<&'a str>,
            done: &mut Vec<&'a str>,
        ) -> Result<(), GraphError> {
            if let Some(start) = path.iter().position(|before| *before == name) {
                let circle = [&path[start..], &[name]].concat().join(" -> ");
                let problem = format!("calls go in a circle: {circle}");
                return Err(nonsense(format!("service {name}"), problem));
            }
            if done.contains(&name) {
                return Ok(());
            }
            path.push(name);
            for callee in graph.service(name).map(Service::callees).unwrap_or_default() {
                follow(graph, callee, path, done)?;
            }
            path.pop();
            done.push(name);
            Ok(())
        }
        let mut done = Vec::new();
        let services = self.services.iter();
        services
            .map(|service| &*service.name)
            .try_for_each(|name| follow(self, name, &mut Vec::new(), &mut done))
    }

    fn check_reach(&self) -> Result<(), GraphError> {
        let (reached, depths) = (self.downstream(&self.entry().name), self.depths());
        for (service, depth) in self.services.iter().zip(depths).skip(1) {
            let at = format!("service {}", service.name);
            if !reached.contains(&&*service.name) {
                let entry = &self.entry().name;
                let problem = format!("nobody calls it on the way from {entry}, the first");
                return Err(nonsense(at, problem));
            }
            if depth >= CALL_DEPTH_MAX {
                let problem = format!("{depth} services wait for it; allowed is {CALL_DEPTH_MAX}");
                return Err(nonsense(at, problem));
            }
        }
        let visits: f64 = self.visits().iter().sum();
        if visits > VISITS_MAX {
            let problem = format!("a job visits services {visits:.0} times; allowed: {VISITS_MAX}");
            return Err(nonsense("service", problem));
        }
        Ok(())
    }
}

fn nonsense(at: impl Into<String>, problem: String) -> GraphError {
    GraphError::Nonsense { at: at.into(), problem }
}

fn check_name(at: &str, name: &str) -> Result<(), GraphError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 48 || !name.chars().all(allowed) {
        let problem = format!(
            "`{name}` is no name; allowed are 1 to 48 lower-case letters, digits and dashes"
        );
        return Err(nonsense(at, problem));
    }
    Ok(())
}

fn count(steps: &[Step]) -> usize {
    steps.iter().map(|step| 1 + step.parallel.iter().map(|steps| count(steps)).sum::<usize>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a graph whose first service has these lines.
    fn problem(lines: &str) -> String {
        let text = format!(
            "name = 'two'
            [[service]]
            name = 'front'
            {lines}
            [[service]]
            name = 'back'
            units = 1
            steps = [{{ work = 'const:1ms' }}]"
        );
        Graph::read(&text).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_service_and_step() {
        let call = "units = 1\nsteps = [{ call = 'back' }]";
        for (lines, expected) in [
            (
                "units = 1\nsteps = [{ call = 'back' }, { call = 'side' }]",
                "service front, step 2: calls side; there are front, back",
            ),
            (
                "units = 0\nsteps = [{ call = 'back' }]",
                "service front, units: they are 0; allowed is 1 to 4096",
            ),
            (
                "units = 1\nsteps = [{ chance = 0.5 }]",
                "service front, step 1: it says nothing; give one of work, call, parallel",
            ),
            (
                "units = 1\nsteps = [{ work = 'const:1ms', call = 'back' }]",
                "service front, step 1: it says several; give one of work, call, parallel",
            ),
            (
                "units = 1\nsteps = [{ call = 'back', chance = 1.5 }]",
                "service front, step 1: chance is 1.5; allowed is 0 to 1",
            ),
            (
                "units = 1\nsteps = [{ call = 'back', chance = nan }]",
                "service front, step 1: chance is NaN; allowed is 0 to 1",
            ),
            (
                "units = 1\nsteps = [{ work = 'const:11s' }]",
                "service front, step 1: work is const:11s; allowed is a mean of up to 10s",
            ),
            (
                "units = 1\nsteps = [{ parallel = [[{ call = 'back' }], []] }]",
                "service front, step 1: branch 2 is empty; give it at least one step",
            ),
            (
                "units = 1\nsteps = [{ parallel = [[{ call = 'back' }, { call = 'x' }]] }]",
                "service front, step 1, branch 1, step 2: calls x; there are front, back",
            ),
            (
                &format!("{call}\npools = {{ front = 3 }}"),
                "service front, pool to front: the service does not call it; it calls back",
            ),
            (
                &format!("{call}\npools = {{ back = 0 }}"),
                "service front, pool to back: it has 0 connections; allowed is 1 to 100000",
            ),
            (
                &format!("{call}\nstore = 'redis'"),
                "service front, store: a store calls nobody, and this one calls back",
            ),
            (
                "units = 1\nsteps = [{ call = 'front' }]",
                "service front: calls go in a circle: front -> front",
            ),
            (
                "units = 1\nsteps = [{ work = 'const:1ms' }]",
                "service back: nobody calls it on the way from front, the first",
            ),
        ] {
            assert_eq!(problem(lines), expected, "{lines}");
        }
        assert!(problem("units = 1\nstep = []").contains("unknown field `step`"));
        assert!(problem("units = 1\nstore = 'mongo'").contains("`mongo`"));
    }

    #[test]
    fn names_are_plain_and_different() {
        let read = |first: &str, second: &str| {
            let text = format!(
                "name = 'two'
                [[service]]
                name = '{first}'
                units = 1
                [[service]]
                name = '{second}'
                units = 1"
            );
            Graph::read(&text).unwrap_err().to_string()
        };
        assert_eq!(read("one", "one"), "service: there are two of the name one");
        assert!(read("one", "../two").starts_with("service 2: `../two` is no name; allowed are 1"));
        assert!(read("", "two").starts_with("service 1: `` is no name"));
        let none = Graph::read("name = 'none'\nservice = []").unwrap_err().to_string();
        assert_eq!(none, "service: there are 0; allowed is 1 to 64");
    }

    /// A row of services, each of which calls the next so many times.
    fn row(length: usize, calls: usize) -> Result<Graph, GraphError> {
        let service = |index: usize| {
            let call = format!("{{ call = 's{}' }}", index + 1);
            let calls = if index + 1 < length { vec![call; calls] } else { Vec::new() };
            let steps = calls.join(", ");
            format!("[[service]]\nname = 's{index}'\nunits = 1\nsteps = [{steps}]\n")
        };
        let services: String = (0..length).map(service).collect();
        Graph::read(&format!("name = 'row'\n{services}"))
    }

    #[test]
    fn size_has_bounds() {
        assert!(row(CALL_DEPTH_MAX, 1).is_ok());
        let long = |length, calls| row(length, calls).unwrap_err().to_string();
        assert_eq!(long(17, 1), "service s16: 16 services wait for it; allowed is 16");
        assert_eq!(long(65, 1), "service: there are 65; allowed is 1 to 64");
        assert_eq!(long(2, 257), "service s0, steps: there are 257; allowed is 0 to 256");
        let visits = long(16, 10);
        assert!(visits.starts_with("service: a job visits services 11111"), "{visits}");
        let deep = |depth: usize| {
            let open = "[{ parallel = [".repeat(depth);
            let close = "] }]".repeat(depth);
            format!("units = 1\nsteps = {open}[{{ work = 'const:1us' }}]{close}")
        };
        assert!(problem(&deep(9)).contains("parallel more than 8 deep is not allowed"));
        assert!(problem(&deep(8)).contains("nobody calls it"));
    }

    #[test]
    fn a_circle_is_shown_whole() {
        let text = "name = 'round'
            [[service]]
            name = 'a'
            units = 1
            steps = [{ call = 'b' }]
            [[service]]
            name = 'b'
            units = 1
            steps = [{ parallel = [[{ call = 'c' }]] }]
            [[service]]
            name = 'c'
            units = 1
            steps = [{ call = 'b' }]";
        let error = Graph::read(text).unwrap_err().to_string();
        assert_eq!(error, "service b: calls go in a circle: b -> c -> b");
    }
}
