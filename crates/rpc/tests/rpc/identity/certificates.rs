//! An authority of our own, and what it signs, as files.

use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};

/// A certificate and its key, PEM files.
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// An authority, in a folder of its own.
pub(crate) struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub(crate) certificate: PathBuf,
}

impl Authority {
    /// A new authority whose files are in a folder called `name`, which no two tests may share.
    pub(crate) fn new(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = folder.join("authority.pem");
        std::fs::write(&certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key), certificate }
    }

    /// A certificate for these DNS names, and a common name.
    pub(crate) fn sign(&self, file: &str, names: &[&str], common_name: Option<&str>) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = DistinguishedName::new();
        if let Some(name) = common_name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let certificate = self.file(&format!("{file}.pem"), &certificate.pem());
        Pair { certificate, key: self.file(&format!("{file}.key"), &key.serialize_pem()) }
    }

    /// A file in the authority's folder.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}
