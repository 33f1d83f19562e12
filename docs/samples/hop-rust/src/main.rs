// SPDX-License-Identifier: Apache-2.0
//! Forwards between queue 0 of two ports, which share a UMEM: frames are not copied by this program.

use std::{env, error::Error};
use xsk_rs::{
    CompQueue, FillQueue, FrameDesc, RxQueue, Socket, TxQueue, Umem,
    config::{SocketConfig, UmemConfig},
};

const HALF: usize = 2048; // frames of a port, as many as its rings have slots
const BATCH: usize = 64;

struct Port {
    rx: RxQueue,
    tx: TxQueue,
    fill: FillQueue,
    comp: CompQueue,
    sending: usize,
}

impl Port {
    /// Safety: nobody else uses `frames`.
    unsafe fn open(name: &str, umem: &Umem, frames: &[FrameDesc]) -> Result<Port, Box<dyn Error>> {
        let (tx, rx, rings) = unsafe { Socket::new(SocketConfig::default(), umem, &name.parse()?, 0)? };
        let (mut fill, comp) = rings.ok_or("another socket has the rings")?;
        unsafe { fill.produce(frames) };
        Ok(Port { rx, tx, fill, comp, sending: 0 })
    }
}

/// All rings have room: there are as many frames of a port as slots in each.
fn forward(from: &mut Port, to: &mut Port, frames: &mut [FrameDesc; BATCH]) -> Result<(), Box<dyn Error>> {
    unsafe {
        let received = from.rx.consume(frames);
        to.sending += to.tx.produce(&frames[..received]);
        if to.sending > 0 {
            to.tx.wakeup()?; // a call sends 32 in copy mode
        }
        let sent = to.comp.consume(frames);
        from.fill.produce(&frames[..sent]); // back to where they were received
        to.sending -= sent;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let names: Vec<String> = env::args().skip(1).collect();
    let [a, b] = names.as_slice() else {
        return Err("usage: hop PORT PORT".into());
    };
    let (umem, frames) = Umem::new(UmemConfig::default(), (2 * HALF as u32).try_into()?, false)?;
    let mut one = unsafe { Port::open(a, &umem, &frames[..HALF])? };
    let mut other = unsafe { Port::open(b, &umem, &frames[HALF..])? };
    let mut batch = [FrameDesc::default(); BATCH];
    loop {
        forward(&mut one, &mut other, &mut batch)?;
        forward(&mut other, &mut one, &mut batch)?;
    }
}
