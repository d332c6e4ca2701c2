//! Services in the form in which the program looks them up.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use super::config::{RAISED_MAX, Refused, SERVICES_MAX, Service, allowed};

/// A service's place in the program's tables, and in [`Boosts`](super::Boosts). It keeps it for as
/// long as it is there.
pub type Slot = u16;

/// Services and their slots, in one table for all who watch.
#[derive(Clone, Debug, Default)]
pub struct Services(pub(super) Table);

impl Services {
    /// From now on there are these, and no others. Those that were there before keep their slots.
    ///
    /// # Errors
    ///
    /// If they are refused, and then nothing has changed.
    pub fn set(&mut self, services: &[Service]) -> Result<(), Refused> {
        self.0 = self.0.next(services)?;
        Ok(())
    }

    /// The slot of a service.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        self.0.slots.get(name).copied()
    }
}

/// Which service has which slot, and what the program is told of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) slots: BTreeMap<String, Slot>,
    /// By slot.
    pub(super) rows: BTreeMap<Slot, Row>,
    /// Services that have a port alone, or at all addresses but those below.
    pub(super) ports: BTreeMap<u16, Slot>,
    pub(super) addresses: BTreeMap<(u16, IpAddr), Slot>,
}

/// What the program knows of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) expected_ns: u64,
    pub(super) protocol: super::Protocol,
    /// Itself first.
    pub(super) raised: Vec<Slot>,
}

impl Table {
    /// The table of these services, in which those that stay keep their slots.
    pub(super) fn next(&self, services: &[Service]) -> Result<Self, Refused> {
        if services.len() > SERVICES_MAX {
            return Err(Refused::Services { count: services.len() });
        }
        let mut next = Self { slots: self.slots_for(services)?, ..Self::default() };
        for service in services {
            next.add(service, services)?;
        }
        Ok(next)
    }

    /// Ports at which some service is found.
    pub(super) fn all_ports(&self) -> BTreeSet<u16> {
        self.ports.keys().copied().chain(self.addresses.keys().map(|(port, _)| *port)).collect()
    }

    pub(super) fn has_port(&self, port: u16) -> bool {
        self.ports.contains_key(&port) || self.has_addresses(port)
    }

    pub(super) fn has_addresses(&self, port: u16) -> bool {
        let first = (port, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        self.addresses.range(first..).next().is_some_and(|((found, _), _)| *found == port)
    }

    fn slots_for(&self, services: &[Service]) -> Result<BTreeMap<String, Slot>, Refused> {
        let mut slots = BTreeMap::new();
        for service in services {
            let name = &service.name;
            if slots.insert(name.clone(), self.slots.get(name).copied()).is_some() {
                return Err(Refused::Twice { name: name.clone() });
            }
        }
        let taken: BTreeSet<Slot> = slots.values().flatten().copied().collect();
        let last = Slot::try_from(SERVICES_MAX - 1).unwrap_or(Slot::MAX);
        let mut free = (0..=last).filter(|slot| !taken.contains(slot));
        let keep = |(name, slot): (String, Option<Slot>)| {
            let slot =
                slot.or_else(|| free.next()).expect("there are not more services than slots");
            (name, slot)
        };
        Ok(slots.into_iter().map(keep).collect())
    }

    fn add(&mut self, service: &Service, all: &[Service]) -> Result<(), Refused> {
        let name = || service.name.clone();
        if service.port == 0 {
            return Err(Refused::Port { name: name() });
        }
        allowed("expected time of a service", service.expected)?;
        let slot = self.slots[&service.name];
        let mut raised = vec![slot];
        for downstream in &service.downstream {
            let Some(&slot) = self.slots.get(downstream) else {
                return Err(Refused::Unknown { name: name(), downstream: downstream.clone() });
            };
            if !raised.contains(&slot) {
                raised.push(slot);
            }
        }
        if raised.len() > RAISED_MAX {
            return Err(Refused::Downstream { name: name(), count: raised.len() - 1 });
        }
        let port = service.port;
        let before = if service.addresses.is_empty() {
            self.ports.insert(port, slot)
        } else {
            let insert = |&ip: &IpAddr| self.addresses.insert((port, ip.to_canonical()), slot);
            service.addresses.iter().filter_map(insert).find(|&before| before != slot)
        };
        if let Some(before) = before {
            let other = all.iter().find(|it| self.slots[&it.name] == before);
            let one = other.map_or_else(String::new, |it| it.name.clone());
            return Err(Refused::SamePort { one, other: name(), port });
        }
        let expected_ns = u64::try_from(service.expected.as_nanos()).unwrap_or(u64::MAX);
        self.rows.insert(slot, Row { expected_ns, protocol: service.protocol, raised });
        Ok(())
    }
}

/// The key of the program's map of addresses: the address as one of IPv6, the port, and zeros.
pub(super) fn key((port, ip): &(u16, IpAddr)) -> [u8; 20] {
    let ip = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => *ip,
    };
    let mut key = [0; 20];
    key[..16].copy_from_slice(&ip.octets());
    key[16..18].copy_from_slice(&port.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Protocol;
    use super::*;

    fn service(name: &str, port: u16) -> Service {
        Service {
            name: name.into(),
            port,
            addresses: Vec::new(),
            protocol: Protocol::Native,
            expected: Duration::from_millis(1),
            downstream: Vec::new(),
        }
    }

    fn refusal(services: &[Service]) -> String {
        Table::default().next(services).unwrap_err().to_string()
    }

    #[test]
    fn who_stays_keeps_its_slot() {
        let first = [service("a", 1), service("b", 2), service("c", 3)];
        let table = Table::default().next(&first).unwrap();
        assert_eq!(table.slots["c"], 2);
        let then = table.next(&[service("d", 4), service("c", 5), service("b", 2)]).unwrap();
        assert_eq!((then.slots["b"], then.slots["c"], then.slots["d"]), (1, 2, 0));
        assert_eq!((then.ports.get(&1), then.ports.get(&5)), (None, Some(&2)));
    }

    #[test]
    fn those_downstream_are_raised_once_each() {
        let mut a = service("a", 1);
        a.downstream = ["b", "a", "b"].map(String::from).to_vec();
        let table = Table::default().next(&[a, service("b", 2)]).unwrap();
        assert_eq!(table.rows[&0].raised, [0, 1]);
    }

    #[test]
    fn addresses_tell_services_of_one_port_apart() {
        let at = |name, last| Service {
            addresses: vec![Ipv4Addr::new(10, 0, 0, last).into()],
            ..service(name, 80)
        };
        let table = Table::default().next(&[at("a", 1), at("b", 2), service("c", 80)]).unwrap();
        assert_eq!((table.addresses.len(), table.ports[&80]), (2, 2));
        assert!(refusal(&[at("a", 1), at("b", 1)]).contains("a and b have the same port 80"));
        assert!(refusal(&[service("a", 80), service("b", 80)]).contains("the same port 80"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(refusal(&[service("a", 0)]).contains("service a: port 0"));
        assert!(refusal(&[service("a", 1), service("a", 2)]).contains("a is there twice"));
        let lost = Service { downstream: vec!["x".into()], ..service("a", 1) };
        assert!(refusal(&[lost]).contains("x, downstream of it, is no service"));
        let never = Service { expected: Duration::ZERO, ..service("a", 1) };
        assert!(refusal(&[never]).contains("expected time of a service = 0ns"));
        let mut many: Vec<_> = (1..=17).map(|port| service(&format!("s{port}"), port)).collect();
        many[0].downstream = many.iter().map(|it| it.name.clone()).collect();
        assert!(refusal(&many).contains("16 services downstream are too many; at most 15"));
        let all: Vec<_> = (0..4097).map(|n| service(&n.to_string(), n + 1)).collect();
        assert!(refusal(&all).contains("4097 services are too many: at most 4096"));
        assert_eq!(Table::default().next(&all[1..]).unwrap().slots.len(), SERVICES_MAX);
    }
}
