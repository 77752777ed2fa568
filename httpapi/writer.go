package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// write writes what comes into a queue, until that is over or the stream is to
// end. A refusal is an error.
func (v *visit) write(f format, q *queue, session string) error {
	defer q.leave()
	items, over := v.first(q)
	if len(items) > 0 && items[0].err != nil {
		return items[0].err
	}
	h := v.w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // for proxies that would hold it back
	s := &writer{v: v, f: f, session: session, c: http.NewResponseController(v.w),
		again: time.NewTicker(v.h.config.Streams.Reauthorize)}
	defer s.again.Stop()
	defer func() { _ = s.c.SetWriteDeadline(time.Time{}) }() // of the connection, which goes on
	s.piece(fmt.Appendf(nil, "retry: %d\n\n", v.h.config.Streams.Retry.Milliseconds()))
	beat := time.NewTicker(v.h.config.Streams.Heartbeat)
	defer beat.Stop()
	for {
		if s.items(items); over || s.over {
			return nil
		}
		select {
		case <-q.more:
		case <-beat.C:
			s.text([]byte(":\n\n"))
		case <-s.again.C:
			s.ask(true)
		case <-v.h.crew.draining:
			s.look(true)
		case <-v.r.Context().Done():
			return nil
		}
		items, over = q.take()
	}
}

// may returns why the user may not look any more; nil: they may. A stream of a
// run needs no right to follow: the right to begin it let it in.
func (v *visit) may(session string) error {
	user, err := v.h.signedIn(v.r)
	if err == nil && user != v.user {
		err = refuse("no_user", "another user is signed in now")
	}
	if err == nil {
		_, err = v.reach(v.r.Context(), session)
	}
	if err == nil && !v.drives {
		err = v.h.rn.MayFollow(v.r.Context(), session, v.user)
	}
	return err
}

// writer writes server-sent events. Before each piece it looks whether the
// stream is to end: a client that reads slowly keeps it from nothing.
type writer struct {
	v       *visit
	f       format
	session string
	c       *http.ResponseController
	again   *time.Ticker // when the user is asked about anew
	over    bool         // it writes nothing any more
}

// piece is how much a client has to read in Streams.Write.
const piece = 32 << 10

// items writes what a queue held. Frames that are small share a piece.
func (s *writer) items(items []item) {
	var b []byte
	for _, i := range items {
		frames := []frame{i.frame}
		if i.err != nil {
			s.v.note(i.err)
			frames = s.f.fails(i.err)
		}
		for _, one := range frames {
			text := one.text()
			if len(b)+len(text) > piece {
				s.text(b)
				b = nil
			}
			b = append(b, text...)
		}
	}
	s.text(b)
}

// text writes whole frames, or a large one in pieces. One that the stream ends
// within is none to a client.
func (s *writer) text(b []byte) {
	for whole := true; len(b) > 0; whole = false {
		if s.look(whole); s.over {
			return
		}
		n := min(len(b), piece)
		s.piece(b[:n])
		b = b[n:]
	}
}

// look ends the stream, if it is to end.
func (s *writer) look(whole bool) {
	select {
	case <-s.v.r.Context().Done():
		s.over = true
		return
	case <-s.v.h.crew.draining:
		s.last(whole, s.f.closes())
		return
	default:
	}
	select {
	case <-s.again.C:
		s.ask(whole)
	default:
	}
}

// ask ends the stream, if the user may not look any more.
func (s *writer) ask(whole bool) {
	if err := s.v.may(s.session); err != nil {
		s.v.note(err)
		s.last(whole, s.f.fails(err))
	}
}

// last ends the stream. Where it is not within a frame, it tells why.
func (s *writer) last(whole bool, frames []frame) {
	for _, one := range frames {
		if whole {
			s.piece(one.text())
		}
	}
	s.over = true
}

// piece writes at once.
func (s *writer) piece(b []byte) {
	if s.over {
		return
	}
	err := s.c.SetWriteDeadline(time.Now().Add(s.v.h.config.Streams.Write))
	if errors.Is(err, http.ErrNotSupported) {
		err = nil
	}
	if err == nil {
		_, err = s.v.w.Write(b)
	}
	if err == nil {
		err = s.c.Flush()
	}
	s.over = s.over || err != nil
}

// text is the frame on its way.
func (f *frame) text() []byte {
	var b []byte
	if f.id != "" {
		b = append(b, "id: "+oneLine(f.id)+"\n"...)
	}
	b = append(b, "data: "...)
	b = append(b, f.data...)
	return append(b, "\n\n"...)
}

// oneLine takes out of an id what would end its line.
func oneLine(id string) string {
	return strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(id)
}
