//! An answer's body that drives the connection that it comes on, and gives it back when it has been read to its end.
//! Dropped before that, it closes the connection: to a modern server that is the cancellation.

use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};

use super::conns::{Conns, Wire};

/// Frames that are looked at when a body is dropped: what is there already and short costs no connection.
const LEFT_FRAMES: usize = 4;

/// The body of an answer.
pub(in crate::adapters) struct Body {
    incoming: Incoming,
    /// None over HTTP/2, and when the connection is gone or given back.
    wire: Option<(Box<Wire>, Weak<Conns>)>,
}

impl Body {
    /// `wire` is the HTTP/1.1 connection that nobody else drives.
    pub(in crate::adapters) fn new(incoming: Incoming, wire: Option<(Box<Wire>, Weak<Conns>)>) -> Body {
        Body { incoming, wire }
    }

    fn give_back(&mut self) {
        if let Some((wire, conns)) = self.wire.take()
            && let Some(conns) = conns.upgrade()
        {
            Conns::put(&conns, wire);
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let mut frame = Pin::new(&mut this.incoming).poll_frame(cx);
        if frame.is_pending()
            && let Some((wire, _)) = &mut this.wire
        {
            // Even when the connection is over now, the frames before its end are still to be had.
            let _ = wire.poll(cx);
            frame = Pin::new(&mut this.incoming).poll_frame(cx);
        }
        match &frame {
            Poll::Ready(None) => this.give_back(),
            Poll::Ready(Some(Ok(_))) if this.incoming.is_end_stream() => this.give_back(),
            Poll::Ready(Some(Err(_))) => this.wire = None,
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..LEFT_FRAMES {
            if self.wire.is_none() {
                return;
            }
            if self.incoming.is_end_stream() {
                return self.give_back();
            }
            if !matches!(Pin::new(&mut *self).poll_frame(&mut cx), Poll::Ready(Some(Ok(_)))) {
                return;
            }
        }
    }
}
