//! What is asked for: classes of requests, and how many of all each is.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use seawall_control::Rng;

/// Most classes.
const CLASSES_MAX: usize = 16;

/// Stands in a body for a number that no two requests have in common.
const UNIQUE: &str = "{}";

/// Classes of requests, written as `NAME:SHARE:PATH[:BODY]`, separated by commas. `{}` in a body
/// stands for a number of its own in each request, always 16 hexadecimal digits.
#[derive(Clone, Debug, PartialEq)]
pub struct Requests {
    classes: Vec<Class>,
}

#[derive(Clone, Debug, PartialEq)]
struct Class {
    name: String,
    share: f64,
    path: String,
    body: String,
}

impl Requests {
    /// One class.
    pub fn all(path: &str) -> Self {
        let class =
            Class { name: "all".into(), share: 1.0, path: path.into(), body: String::new() };
        Self { classes: vec![class] }
    }

    /// Names of the classes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().map(|class| &*class.name)
    }

    /// The next request: the index of its class, its path, and its body.
    pub fn next(&self, rng: &mut Rng) -> (usize, &str, Bytes) {
        let mut left = rng.uniform();
        let mut index = 0;
        while index + 1 < self.classes.len() && left >= self.classes[index].share {
            left -= self.classes[index].share;
            index += 1;
        }
        let class = &self.classes[index];
        let body = match class.body.contains(UNIQUE) {
            true => class.body.replace(UNIQUE, &format!("{:016x}", rng.next_u64())).into(),
            false => Bytes::copy_from_slice(class.body.as_bytes()),
        };
        (index, &class.path, body)
    }
}

impl FromStr for Requests {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let classes: Vec<Class> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        if classes.len() > CLASSES_MAX {
            return Err(format!("{} classes; allowed: 1 to {CLASSES_MAX}", classes.len()));
        }
        let sum: f64 = classes.iter().map(|class| class.share).sum();
        if (sum - 1.0).abs() > 1e-6 {
            return Err(format!("the shares are {sum} together; allowed: 1"));
        }
        for (index, class) in classes.iter().enumerate() {
            if classes[..index].iter().any(|other| other.name == class.name) {
                return Err(format!("the class {} is there twice", class.name));
            }
        }
        Ok(Self { classes })
    }
}

impl FromStr for Class {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}`: write NAME:SHARE:PATH[:BODY], such as hot:0.5:/hot");
        let mut parts = text.trim().splitn(4, ':');
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let (Some(name), Some(share), Some(path)) = (part(), part(), part()) else {
            return Err(form());
        };
        let share: f64 = share.parse().map_err(|_| form())?;
        if !(share > 0.0 && share <= 1.0) {
            return Err(format!("the share of {name} is {share}; allowed: above 0 to 1"));
        }
        if !path.starts_with('/') {
            return Err(format!("the path of {name} is {path}; it begins with a slash"));
        }
        let body = part().unwrap_or_default().to_owned();
        Ok(Self { name: name.into(), share, path: path.into(), body })
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, class) in self.classes.iter().enumerate() {
            let Class { name, share, path, body } = class;
            let comma = if index > 0 { "," } else { "" };
            let colon = if body.is_empty() { "" } else { ":" };
            write!(f, "{comma}{name}:{share}:{path}{colon}{body}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept_and_bodies_are_unlike() {
        let requests: Requests = "hot:0.25:/work:h{},cold:0.75:/work:c{}".parse().unwrap();
        assert_eq!(requests.names().collect::<Vec<_>>(), ["hot", "cold"]);
        let mut rng = Rng::new(3);
        let mut bodies = std::collections::BTreeSet::new();
        let mut hot = 0;
        for _ in 0..10_000 {
            let (class, path, body) = requests.next(&mut rng);
            assert_eq!((path, body.len()), ("/work", 17));
            assert_eq!(body[0], [b'h', b'c'][class]);
            hot += usize::from(class == 0);
            bodies.insert(body);
        }
        assert!((2_300..2_700).contains(&hot), "{hot}");
        assert_eq!(bodies.len(), 10_000);
    }

    #[test]
    fn texts_are_there_and_back() {
        for text in ["all:1:/", "a:0.5:/a,b:0.5:/b:{\"id\":1}"] {
            assert_eq!(text.parse::<Requests>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let error = |text: &str| text.parse::<Requests>().unwrap_err();
        assert!(error("a:0.5:/a").contains("0.5 together; allowed: 1"));
        assert!(error("a:2:/a").contains("the share of a is 2; allowed: above 0 to 1"));
        assert!(error("a:0.5:/a,a:0.5:/b").contains("the class a is there twice"));
        assert!(error("a:1:work").contains("begins with a slash"));
        for text in ["", "a", "a:x:/a", "a:1"] {
            assert!(error(text).contains("write NAME:SHARE:PATH"), "{text}");
        }
    }
}
