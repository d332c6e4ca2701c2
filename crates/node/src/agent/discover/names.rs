//! What the path of a control group says of the container in it.

/// Who keeps the container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A container of a Kubernetes pod.
    Kubernetes {
        /// The pod's UID, with dashes.
        pod: String,
        /// The container's identifier, without the name of its runtime.
        container: String,
    },
    /// A container of Docker, outside of Kubernetes.
    Docker {
        /// Its identifier.
        container: String,
    },
    /// A service, slice or scope of systemd.
    Systemd {
        /// The unit.
        unit: String,
    },
    /// A group that the configuration names.
    Configured,
}

impl Kind {
    /// One word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Kubernetes { .. } => "kubernetes",
            Self::Docker { .. } => "docker",
            Self::Systemd { .. } => "systemd",
            Self::Configured => "configured",
        }
    }
}

/// The names of runtimes before a container's identifier, where systemd keeps the groups.
const RUNTIMES: [&str; 4] = ["cri-containerd-", "crio-", "docker-", "podman-"];

/// Hexadecimal digits of a container's identifier.
const IDENTIFIER_DIGITS: usize = 64;

/// The container of a Kubernetes pod, in both ways in which a kubelet names groups: with systemd,
/// `/kubepods.slice/kubepods-CLASS.slice/kubepods-CLASS-podUID.slice/cri-containerd-ID.scope`, and
/// without, `/kubepods/CLASS/podUID/ID`. Groups below that are the container's
/// own business, and those above are whole pods.
pub(in crate::agent) fn kubernetes(path: &str) -> Option<Kind> {
    let mut parts = path.rsplit('/');
    let (last, pod) = (parts.next()?, parts.next()?);
    if !parts.any(|part| part == "kubepods" || part == "kubepods.slice") {
        return None;
    }
    let container = identifier(last)?.to_owned();
    let pod = match pod.strip_suffix(".slice") {
        // Systemd takes dashes for levels, so that a UID's dashes are written otherwise.
        Some(slice) => slice.rsplit_once("-pod")?.1.replace('_', "-"),
        None => pod.strip_prefix("pod")?.to_owned(),
    };
    Some(Kind::Kubernetes { pod, container })
}

/// A container of Docker: `/docker/ID` or `/system.slice/docker-ID.scope`.
pub(super) fn docker(path: &str) -> Option<Kind> {
    let (parent, last) = path.rsplit_once('/')?;
    let container = identifier(last)?;
    let is_bare = last.len() == container.len();
    let is_its = if is_bare { parent.ends_with("/docker") } else { last.starts_with("docker-") };
    is_its.then(|| Kind::Docker { container: container.to_owned() })
}

/// A unit of systemd.
pub(super) fn systemd(path: &str) -> Option<Kind> {
    let unit = path.rsplit('/').next()?;
    let is_unit = [".service", ".slice", ".scope"].iter().any(|kind| unit.ends_with(kind));
    is_unit.then(|| Kind::Systemd { unit: unit.to_owned() })
}

/// The identifier in the last part of a container's path, with or without a runtime's name.
fn identifier(last: &str) -> Option<&str> {
    let bare = match last.strip_suffix(".scope") {
        None => last,
        Some(scope) => RUNTIMES.iter().find_map(|runtime| scope.strip_prefix(runtime))?,
    };
    let is_hex = |c: char| c.is_ascii_hexdigit();
    (bare.len() == IDENTIFIER_DIGITS && bare.chars().all(is_hex)).then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: char) -> String {
        digit.to_string().repeat(IDENTIFIER_DIGITS)
    }

    const POD: &str = "0f1b5ab5-9d8f-4a2c-a3f3-9b1c5a0c7f3e";

    fn pod(digit: char) -> Option<Kind> {
        Some(Kind::Kubernetes { pod: POD.to_owned(), container: id(digit) })
    }

    #[test]
    fn pods_of_both_drivers_and_all_classes() {
        let slice = POD.replace('-', "_");
        let base = "/kubepods.slice/kubepods-burstable.slice";
        let a = id('a');
        for path in [
            format!("{base}/kubepods-burstable-pod{slice}.slice/cri-containerd-{a}.scope"),
            format!("/kubepods.slice/kubepods-pod{slice}.slice/crio-{a}.scope"),
            format!("/kubepods/burstable/pod{POD}/{a}"),
            format!("/kubepods/pod{POD}/{a}"),
            format!("/kubelet.slice/kubepods.slice/kubepods-pod{slice}.slice/docker-{a}.scope"),
        ] {
            assert_eq!(kubernetes(&path), pod('a'), "{path}");
        }
    }

    #[test]
    fn what_is_not_the_container_of_a_pod() {
        let a = id('a');
        for path in [
            format!("/kubepods/burstable/pod{POD}"),
            format!("/kubepods/burstable/pod{POD}/{a}/inner"),
            format!("/kubepods/burstable/pod{POD}/{}", &a[1..]),
            format!("/system.slice/docker-{a}.scope"),
            format!("/kubepods.slice/kubepods-x.slice/cri-containerd-{a}.scope"),
            format!("/kubepods.slice/kubepods-pod{POD}.slice/crio-conmon-{a}.scope"),
            "/".to_owned(),
            String::new(),
        ] {
            assert_eq!(kubernetes(&path), None, "{path}");
        }
    }

    #[test]
    fn containers_of_docker_in_both_ways() {
        let found = Some(Kind::Docker { container: id('b') });
        assert_eq!(docker(&format!("/docker/{}", id('b'))), found);
        assert_eq!(docker(&format!("/system.slice/docker-{}.scope", id('b'))), found);
        assert_eq!(docker("/docker"), None);
        assert_eq!(docker(&format!("/lxc/{}", id('b'))), None);
        assert_eq!(docker(&format!("/system.slice/crio-{}.scope", id('b'))), None);
    }

    #[test]
    fn units_of_systemd() {
        let unit = |unit: &str| Some(Kind::Systemd { unit: unit.to_owned() });
        assert_eq!(systemd("/system.slice/nginx.service"), unit("nginx.service"));
        assert_eq!(systemd("/web.slice"), unit("web.slice"));
        assert_eq!(systemd("/user.slice/user-0.slice/session-1.scope"), unit("session-1.scope"));
        assert_eq!(systemd("/system.slice/nginx.service/worker"), None);
    }
}
