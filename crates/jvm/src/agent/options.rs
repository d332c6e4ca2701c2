//! What follows `-agentpath:libseawall_jvm.so=`.

use std::path::PathBuf;

use seawall_control::predict::pause::{Config, Fit};
use thiserror::Error;

/// Names the folder of pages where the options do not.
const FOLDER: &str = "SEAWALL_PAGES";

/// Options of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Name of the service.
    pub(crate) service: Option<String>,
    /// The port at which it is asked; 0 for none in particular.
    pub(crate) port: u16,
    /// Folder of the pages.
    pub(crate) pages: Option<PathBuf>,
    /// How pauses are predicted.
    pub(crate) prediction: Config,
    /// Where each pause is written down, as comma-separated values.
    pub(crate) record: Option<PathBuf>,
}

/// What cannot be read of them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0}; options are service=NAME, port=8080, pages=FOLDER, fit=ransac or ols, window=128, \
         record=FILE, with commas between"
)]
pub(crate) struct Unreadable(String);

impl Options {
    /// Reads them; what is missing is as by default.
    pub(crate) fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut options = Self::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let wrong = |what: &str| Unreadable(format!("{option:?}: {what}"));
            let (name, value) = option.split_once('=').ok_or_else(|| wrong("it has no value"))?;
            match name {
                "service" => options.service = Some(value.into()),
                "port" => options.port = value.parse().map_err(|_| wrong("no port, 0 to 65535"))?,
                "pages" => options.pages = Some(value.into()),
                "fit" => {
                    options.prediction.fit = match value {
                        "ransac" => Fit::Ransac,
                        "ols" => Fit::Ols,
                        _ => return Err(wrong("it is ransac or ols")),
                    }
                }
                "window" => {
                    options.prediction.window = value.parse().map_err(|_| wrong("no number"))?;
                }
                "record" => options.record = Some(value.into()),
                _ => return Err(wrong("there is no such option")),
            }
        }
        let checked = options.prediction.validate();
        checked.map_err(|error| Unreadable(error.to_string()))?;
        Ok(options)
    }

    /// The folder of pages, from here or from the environment; `None` for no page.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let from_environment = || std::env::var_os(FOLDER).map(PathBuf::from);
        let folder = self.pages.clone().or_else(from_environment);
        folder.filter(|folder| !folder.as_os_str().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_as_by_default() {
        assert_eq!(Options::parse("").unwrap(), Options::default());
        let all = "service=shop,port=8080,pages=/run/seawall,fit=ols,window=64,record=/tmp/p.csv";
        let options = Options::parse(all).unwrap();
        assert_eq!((options.service.as_deref(), options.port), (Some("shop"), 8080));
        assert_eq!(options.prediction, Config { fit: Fit::Ols, window: 64 });
        assert_eq!(options.folder(), Some("/run/seawall".into()));
    }

    #[test]
    fn errors_name_the_option_and_what_is_allowed() {
        for (text, part) in [
            ("colour=red", "there is no such option"),
            ("service", "it has no value"),
            ("port=99999", "\"port=99999\": no port"),
            ("fit=best", "ransac or ols"),
            ("window=3", "pause.window"),
        ] {
            let error = Options::parse(text).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("service=NAME"), "{error}");
        }
    }
}
