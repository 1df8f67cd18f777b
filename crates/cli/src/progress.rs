//! Progress bars, which are drawn only on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reprise::Progress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const STYLE: &str = "{msg:28} [{bar:32}] {percent:>3} %  {per_sec}  {eta} left";

/// Returns a bar over a number of steps, drawn on standard error when that is a terminal.
pub fn bar(message: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(STYLE) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(message);
    bar
}

/// Runs a recovery and draws its progress.
pub fn watch<R>(run: impl FnOnce(&Progress) -> R) -> R {
    follow(&Progress::default(), run)
}

/// Runs a recovery and draws its progress, which other threads may read, too.
pub fn follow<R>(progress: &Progress, run: impl FnOnce(&Progress) -> R) -> R {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bar = bar("recovering", 0);
            while !done.load(Ordering::Acquire) {
                let (stage, position, total) = progress.now();
                bar.set_message(stage.doing());
                bar.set_length(total);
                bar.set_position(position);
                std::thread::sleep(Duration::from_millis(50));
            }
            bar.finish_and_clear();
        });
        let result = run(progress);
        done.store(true, Ordering::Release);
        result
    })
}
