//! Loads made from a few figures and a seed.
//!
//! Jobs come in pushes: a few at once, of one repository and class. Each repository has its usual time, and
//! some jobs take far longer. Times are whole seconds, so that much happens at the same moment and
//! the largest loads are still quick to simulate.

use kiln_core::queue::Class;

use super::jobs::{Load, LoadBuilder};
use super::numbers::{float, whole};
use crate::random::Random;

/// When the jobs come, and whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// At any time; some organizations have more jobs than others.
    Steady,
    /// Each organization submits its jobs in a few heaps.
    Burst,
    /// More by day than by night.
    Day,
    /// One organization has half of all jobs and submits them in four heaps; the others are steady.
    Greedy,
}

/// What is to be generated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted {
    pub jobs: u32,
    pub organizations: u32,
    pub shape: Shape,
    /// How much of the time of so many runners the jobs would take, spread evenly: 1 is all of it.
    pub load: f64,
    pub runners: u32,
    pub seed: u64,
}

/// Labels of jobs, and how many of a hundred have them.
const PLATFORMS: [(&[&str], u64); 3] =
    [(&["linux"], 70), (&["linux", "large"], 15), (&["macos"], 15)];

/// Of a hundred pushes.
const CLASSES: [(Class, u64); 4] =
    [(Class::Urgent, 3), (Class::High, 25), (Class::Normal, 60), (Class::Low, 12)];

/// Of a thousand pushes, so many are started by somebody who waits.
const IN_PERSON: u64 = 5;
const MOST_JOBS_OF_PUSH: u64 = 8;
const MOST_REPOSITORIES: u64 = 4;
/// A job takes four hours at most, as with a server.
const LONGEST_SECONDS: f64 = 14_400.0;
const DAY_SECONDS: f64 = 86_400.0;
/// How many heaps an organization submits, and how much of the whole time one takes.
const HEAPS: u64 = 4;
const HEAP_WIDTH: f64 = 0.01;

/// The same figures and the same seed make the same load. A load that is too small is not zero: it is
/// taken as a thousandth.
pub fn generate(wanted: &Wanted) -> Load {
    let mut random = Random::new(wanted.seed);
    let mut builder = LoadBuilder::default();
    let organizations = Organizations::new(wanted, &mut random.fork(), &mut builder);
    let pushes = pushes(wanted, &organizations, &mut random.fork(), &mut builder);
    let work: f64 =
        pushes.iter().flat_map(|push| &push.jobs).map(|job| f64::from(job.seconds)).sum();
    let span = work / (f64::from(wanted.runners.max(1)) * wanted.load.max(0.001));
    let mut random = random.fork();
    for push in pushes {
        let at = whole(moment(wanted.shape, &organizations, &push, span, &mut random) * span);
        for job in push.jobs {
            let millis = job.seconds.saturating_mul(1000);
            builder.job(at * 1000, millis, job.lane).expect("the number of jobs is bounded");
        }
    }
    builder.build()
}

/// A repository, and how long its jobs usually take.
struct Repository {
    number: u32,
    seconds: f64,
}

struct Organizations {
    repositories: Vec<Vec<Repository>>,
    /// Up to which number each is drawn.
    weights: Vec<f64>,
    /// When each submits its heaps, as a part of the whole time.
    heaps: Vec<Vec<f64>>,
}

impl Organizations {
    fn new(wanted: &Wanted, random: &mut Random, builder: &mut LoadBuilder) -> Self {
        let mut made = Self { repositories: vec![], weights: vec![], heaps: vec![] };
        let others = f64::from(wanted.organizations.max(1)) - 1.0;
        let mut weight = 0.0;
        for number in 0..wanted.organizations.max(1) {
            weight += match (wanted.shape, number) {
                (Shape::Greedy, 0) => others.max(1.0),
                (Shape::Greedy, _) => 1.0,
                _ => 1.0 / f64::from(number + 1).sqrt(),
            };
            made.weights.push(weight);
            let name = match (wanted.shape, number) {
                (Shape::Greedy, 0) => "greedy".to_owned(),
                _ => format!("org-{}", number + 1),
            };
            let organization = builder.organization(&name).expect("their number is bounded");
            let repository = |at| Repository {
                number: builder
                    .repository(organization, &format!("repo-{at}"))
                    .expect("their number is bounded"),
                // From half a minute to ten minutes.
                seconds: 30.0 * 20.0_f64.powf(random.fraction()),
            };
            made.repositories.push((1..=MOST_REPOSITORIES).map(repository).collect());
            made.heaps.push(heaps(wanted.shape, random));
        }
        made
    }

    fn draw(&self, random: &mut Random) -> usize {
        let all = self.weights.last().copied().unwrap_or(0.0);
        let drawn = random.fraction() * all;
        self.weights.partition_point(|&weight| weight <= drawn).min(self.weights.len() - 1)
    }
}

fn heaps(shape: Shape, random: &mut Random) -> Vec<f64> {
    match shape {
        Shape::Greedy => (0..HEAPS).map(|heap| (float_of(heap) + 0.1) / float_of(HEAPS)).collect(),
        _ => (0..HEAPS).map(|_| random.fraction() * (1.0 - HEAP_WIDTH)).collect(),
    }
}

fn float_of(number: u64) -> f64 {
    float(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Jobs that come together.
struct Push {
    organization: usize,
    jobs: Vec<Draft>,
}

struct Draft {
    lane: u32,
    seconds: u32,
}

fn pushes(
    wanted: &Wanted,
    organizations: &Organizations,
    random: &mut Random,
    builder: &mut LoadBuilder,
) -> Vec<Push> {
    let kinds = PLATFORMS.map(|(labels, _)| {
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        builder.kind(&labels).expect("these labels are words")
    });
    let (mut left, mut pushes) = (u64::from(wanted.jobs), Vec::new());
    while left > 0 {
        let size = (1 + random.below(MOST_JOBS_OF_PUSH)).min(left);
        left -= size;
        let organization = organizations.draw(random);
        let repositories = &organizations.repositories[organization];
        let repository = random.pick(repositories).expect("every organization has some");
        let class = CLASSES[drawn(&CLASSES.map(|(_, weight)| weight), random)].0;
        let priority = if random.chance(IN_PERSON, 1000) { 100 } else { 0 };
        let job = |_| {
            let kind = kinds[drawn(&PLATFORMS.map(|(_, weight)| weight), random)];
            let lane = builder.lane(kind, priority, repository.number, class);
            Draft { lane, seconds: length(repository.seconds, random) }
        };
        pushes.push(Push { organization, jobs: (0..size).map(job).collect() });
    }
    pushes
}

/// A place in a list of weights.
fn drawn(weights: &[u64], random: &mut Random) -> usize {
    let mut left = random.below(weights.iter().sum());
    for (place, &weight) in weights.iter().enumerate() {
        if left < weight {
            return place;
        }
        left -= weight;
    }
    0
}

/// Most jobs take a bit less than usual, and some take many times as long (a Pareto distribution).
fn length(usual: f64, random: &mut Random) -> u32 {
    let times = 0.6 * (1.0 - random.fraction()).powf(-1.0 / 1.8);
    u32::try_from(whole((usual * times).clamp(1.0, LONGEST_SECONDS))).unwrap_or(1)
}

/// When a push comes, as a part of the whole time.
fn moment(
    shape: Shape,
    organizations: &Organizations,
    push: &Push,
    span: f64,
    random: &mut Random,
) -> f64 {
    let in_a_heap = |random: &mut Random| {
        let heap = random.pick(&organizations.heaps[push.organization]).copied();
        heap.unwrap_or(0.0) + HEAP_WIDTH * random.fraction()
    };
    match (shape, push.organization) {
        (Shape::Burst, _) | (Shape::Greedy, 0) => in_a_heap(random),
        (Shape::Steady | Shape::Greedy, _) => random.fraction(),
        (Shape::Day, _) => by_day((span / DAY_SECONDS).round().max(1.0), random),
    }
}

/// Twenty times as many at noon as at midnight.
fn by_day(days: f64, random: &mut Random) -> f64 {
    loop {
        let at = random.fraction();
        let sun = (std::f64::consts::PI * at * days).sin().powi(2);
        if random.fraction() < 0.05 + 0.95 * sun {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::numbers::count;
    use super::*;

    fn wanted(shape: Shape) -> Wanted {
        Wanted { jobs: 4_000, organizations: 8, shape, load: 0.9, runners: 40, seed: 3 }
    }

    const SHAPES: [Shape; 4] = [Shape::Steady, Shape::Burst, Shape::Day, Shape::Greedy];

    /// S19
    #[test]
    fn a_seed_decides_the_whole_load() {
        for shape in SHAPES {
            let load = generate(&wanted(shape));
            assert_eq!(load, generate(&wanted(shape)));
            assert_ne!(load, generate(&Wanted { seed: 4, ..wanted(shape) }));
        }
    }

    #[test]
    fn a_load_is_what_was_asked_for() {
        for shape in SHAPES {
            let load = generate(&wanted(shape));
            assert_eq!((load.jobs.len(), load.organizations.len()), (4_000, 8), "{shape:?}");
            assert!(load.jobs.is_sorted_by_key(|job| job.submitted));
            let span = float(load.work()) / (40.0 * 0.9);
            let last = float(load.jobs.last().unwrap().submitted);
            assert!(last <= span && last > span * 0.7, "{shape:?}: {last} of {span}");
        }
    }

    #[test]
    fn the_greedy_organization_has_half_of_all_jobs() {
        let load = generate(&wanted(Shape::Greedy));
        let of_greedy =
            load.jobs.iter().filter(|job| load.lanes[job.lane as usize].organization == 0);
        let part = count(of_greedy.count()) / count(load.jobs.len());
        assert!((0.45..0.55).contains(&part), "{part}");
        assert_eq!(load.organizations[0].name, "greedy");
    }

    #[test]
    fn lengths_have_a_heavy_tail() {
        let mut random = Random::new(1);
        let mut lengths: Vec<u32> = (0..10_000).map(|_| length(100.0, &mut random)).collect();
        lengths.sort_unstable();
        assert!((60..120).contains(&lengths[5_000]), "{}", lengths[5_000]);
        assert!(lengths[9_990] > 1_000 && lengths[9_999] <= 14_400, "{:?}", &lengths[9_990..]);
    }

    #[test]
    fn figures_at_their_bounds_do_no_harm() {
        for shape in SHAPES {
            for (jobs, organizations, load, runners) in
                [(0, 0, 0.0, 0), (1, 1, f64::NAN, 1), (5, 1, f64::INFINITY, 1), (1, 9, -1.0, 2)]
            {
                let wanted = Wanted { jobs, organizations, shape, load, runners, seed: 0 };
                assert_eq!(generate(&wanted).jobs.len(), jobs as usize);
            }
        }
    }
}
