//! What the engine finds is what looking at every document finds.

use std::collections::BTreeSet;
use std::path::Path;

use seawall_control::request::{Claims, Context};
use seawall_control::{Instant, Rng};
use seawall_search::analysis;
use seawall_search::engine::{Engine, EngineConfig, Found, Query};
use seawall_search::index::{self, Layout};
use tantivy::fieldnorm::FieldNormReader;

const LINES: &str = include_str!("data/lines.txt");

fn documents() -> Vec<String> {
    LINES.lines().map(str::to_owned).collect()
}

/// Documents of words whose frequencies differ as those of a language do.
fn generated(count: usize) -> Vec<String> {
    let mut rng = Rng::new(7);
    let mut document = || {
        let length = 1 + rng.below(40);
        let word = |rng: &mut Rng| format!("w{}", 1000 / (1 + rng.below(1000)));
        (0..length).map(|_| word(&mut rng)).collect::<Vec<_>>().join(" ")
    };
    (0..count).map(|_| document()).collect()
}

fn engine(folder: &Path, documents: &[String], segments: usize, config: &EngineConfig) -> Engine {
    let layout = Layout::new(segments, 3).unwrap();
    index::build(folder, documents, &layout, |_| {}).unwrap();
    let engine = Engine::open(folder, config).unwrap();
    assert_eq!(
        (engine.documents() as usize, engine.segments().count()),
        (documents.len(), segments)
    );
    engine
}

async fn search(engine: &Engine, text: &str, limit: u16) -> Found {
    let ctx = Context::new(Claims::default(), Instant::ORIGIN);
    engine.search(&ctx, &Query::new(text, limit).unwrap()).await.unwrap()
}

/// Finds by looking at every document.
struct Scan<'a> {
    documents: &'a [String],
    words: Vec<Vec<String>>,
}

impl<'a> Scan<'a> {
    fn of(documents: &'a [String]) -> Self {
        let words = documents.iter().map(|text| analysis::words(text).collect()).collect();
        Self { documents, words }
    }

    /// The score of every document, by the definition of BM25; zero for those without any of the
    /// words.
    fn scores(&self, query: &str) -> Vec<f64> {
        let all = self.words.len() as f64;
        let average = self.words.iter().map(Vec::len).sum::<usize>() as f64 / all;
        let mut scores = vec![0.0; self.words.len()];
        for word in analysis::words(query).collect::<BTreeSet<_>>() {
            let count = |document: &Vec<String>| document.iter().filter(|it| **it == word).count();
            let counts: Vec<usize> = self.words.iter().map(count).collect();
            let with = counts.iter().filter(|count| **count > 0).count() as f64;
            let idf = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for ((score, document), count) in scores.iter_mut().zip(&self.words).zip(counts) {
                // Lengths are kept in one byte, rounded down.
                let rounded = FieldNormReader::fieldnorm_to_id(document.len() as u32);
                let length = f64::from(FieldNormReader::id_to_fieldnorm(rounded));
                let frequency = count as f64;
                let saturation = frequency + 1.2 * (0.25 + 0.75 * length / average);
                *score += idf * 2.2 * frequency / saturation;
            }
        }
        scores
    }

    #[track_caller]
    fn expect_best(&self, found: &Found, query: &str, limit: usize) {
        let scores = self.scores(query);
        let mut best: Vec<f64> = scores.iter().copied().filter(|score| *score > 0.0).collect();
        assert_eq!(found.total as usize, best.len(), "{query}");
        best.sort_by(|a, b| b.total_cmp(a));
        best.truncate(limit);
        assert_eq!(found.hits.len(), best.len(), "{query}");
        let near = |a: f64, b: f64| (a - b).abs() < 1e-4 * a.max(b);
        for (hit, expected) in found.hits.iter().zip(best) {
            let own = scores[hit.document as usize];
            assert!(near(own, hit.score.into()), "{query}: {hit:?} has {own}");
            assert!(near(expected, hit.score.into()), "{query}: {hit:?} instead of {expected}");
            assert_eq!(*hit.text, self.documents[hit.document as usize]);
        }
        let different: BTreeSet<u32> = found.hits.iter().map(|hit| hit.document).collect();
        assert_eq!(different.len(), found.hits.len(), "{query}");
    }
}

#[tokio::test]
async fn lines_are_found_by_their_words() {
    let folder = tempfile::tempdir().unwrap();
    let documents = documents();
    let engine = engine(folder.path(), &documents, 3, &EngineConfig::default());
    let found = search(&engine, "mason wall", 2).await;
    assert_eq!(found.hits[0].text.split(',').next(), Some("Wall"));
    for query in ["boat", "Boats", "the sea wall", "lock keeper refused", "tea", "dragon"] {
        Scan::of(&documents).expect_best(&search(&engine, query, 5).await, query, 5);
    }
    assert_eq!(search(&engine, "dragon", 5).await, Found::default());
}

#[tokio::test]
async fn many_documents_are_ranked_as_a_scan_ranks_them() {
    let folder = tempfile::tempdir().unwrap();
    let documents = generated(1_500);
    let scan = Scan::of(&documents);
    for (segments, postings_kib, texts_kib, terms) in [(1, 1024, 1024, 100), (4, 0, 0, 1)] {
        let config = {
            let mut config = EngineConfig::default();
            (config.postings_kib, config.texts_kib, config.terms) =
                (postings_kib, texts_kib, terms);
            config
        };
        let engine = engine(folder.path(), &documents, segments, &config);
        let mut rng = Rng::new(3);
        for _ in 0..60 {
            let words = 1 + rng.below(4);
            let query: String = (0..words).map(|_| format!("w{} ", 1 + rng.below(60))).collect();
            let limit = 1 + rng.below(40) as u16;
            let found = search(&engine, &query, limit).await;
            scan.expect_best(&found, &query, limit.into());
        }
    }
}

#[tokio::test]
async fn caches_keep_to_their_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let documents = generated(1_500);
    let config = {
        let mut config = EngineConfig::default();
        (config.postings_kib, config.texts_kib) = (16, 16);
        config
    };
    let engine = engine(folder.path(), &documents, 1, &config);
    for word in (1..60).map(|number| format!("w{}", 1000 / number)) {
        search(&engine, &word, 10).await;
    }
    let caches = tokio::task::spawn_blocking(move || engine.caches()).await.unwrap()[0];
    assert!(caches.postings_misses > 10 && caches.texts_misses > 10, "{caches:?}");
    assert!(caches.postings_bytes <= 16 << 10 && caches.texts_bytes <= 16 << 10, "{caches:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_find_the_same_and_each_list_is_decoded_once() {
    let folder = tempfile::tempdir().unwrap();
    let documents = generated(1_500);
    let engine =
        std::sync::Arc::new(engine(folder.path(), &documents, 2, &EngineConfig::default()));
    let queries: Vec<String> = (1..40).map(|number| format!("w{}", 1000 / number)).collect();
    let tasks: Vec<_> = (0..16)
        .map(|task: usize| {
            let (engine, mut queries) = (engine.clone(), queries.clone());
            let turn = task % queries.len();
            queries.rotate_left(turn);
            tokio::spawn(async move {
                let mut found = Vec::new();
                for query in &queries {
                    found.push(search(&engine, query, 10).await);
                }
                found.rotate_right(turn);
                found
            })
        })
        .collect();
    let mut alone = Vec::new();
    for query in &queries {
        alone.push(search(&engine, query, 10).await);
        Scan::of(&documents).expect_best(alone.last().unwrap(), query, 10);
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), alone);
    }
    let different = queries.iter().collect::<BTreeSet<_>>().len() as u64;
    let decoded: Vec<u64> = engine.caches().iter().map(|caches| caches.postings_misses).collect();
    assert!(decoded.iter().all(|count| *count <= different), "{decoded:?} of {different}");
    assert_eq!(decoded[0], different);
}
