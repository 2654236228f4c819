//! A module's file in Rust without a fault; each cfg adds one fault, as in clean.c. Rust's standard
//! library itself is not a fault. The file exports no descriptor, so no host loads it.
use std::panic::catch_unwind;

#[cfg(data)]
static CALLS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(3);

#[cfg(thread)]
thread_local! { static DEPTH: std::cell::Cell<u32> = std::cell::Cell::new(1); }

#[repr(C)]
pub struct Face {
    count: extern "C" fn(i32) -> i32,
}

extern "C" fn count(n: i32) -> i32 {
    #[cfg(data)]
    CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    #[cfg(thread)]
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    catch_unwind(|| {
        let texts = vec![format!("{n}"), std::thread::current().name().unwrap_or("").to_string()];

        assert!(n < 5, "{n} is too much");
        texts.len() as i32
    })
    .unwrap_or(-1)
}

#[no_mangle]
#[allow(non_upper_case_globals)]
pub static busbar_module: Face = Face { count };
