package terminal

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/fermata-ai/fermata/tool/handle"
)

// patience is how many times as long as the quiet a changing screen waits.
const patience = 10

func newDisplay(ours, theirs *os.File, rows, columns int, quiet time.Duration) *display {
	d := &display{ours: ours, theirs: theirs, quiet: quiet, out: newOutbox(),
		changed: make(chan struct{}, 1)}
	d.screen = newScreen(rows, columns, d.out)
	d.running.Go(d.read)
	d.running.Go(d.write)
	return d
}

// Program returns the program's side.
func (d *display) Program() *os.File { return d.theirs }

// Close ends the goroutines, and hangs up on what still has the terminal.
func (d *display) Close() error {
	d.closing.Do(func() {
		d.out.close()
		_ = d.ours.Close()
		d.running.Wait()
		d.screen.close()
	})
	return nil
}

// read draws what the program writes, until nothing has the terminal any more.
func (d *display) read() {
	buffer := make([]byte, 4<<10) // small, since the lock is held while they are drawn
	for {
		n, err := d.ours.Read(buffer)
		d.mu.Lock()
		if n > 0 {
			d.screen.draw(buffer[:n])
			d.last = time.Now()
			if d.since.IsZero() {
				d.since = d.last
			}
		}
		d.drained = err != nil
		d.mu.Unlock()
		d.wake()
		if err != nil { // Linux has EIO for the end
			return
		}
	}
}

func (d *display) write() {
	for {
		b, open := d.out.take()
		if _, err := d.ours.Write(b); err != nil || !open {
			return
		}
	}
}

// Next returns the screen when it has changed and is quiet.
func (d *display) Next(ctx context.Context) (string, handle.Screen, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		text, size, wait, err := d.look()
		if wait == 0 {
			return text, size, err
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-d.changed:
		case <-ctx.Done():
			return "", handle.Screen{}, context.Cause(ctx)
		}
	}
}

// forever is a wait that only a change ends.
const forever = 1 << 62

// look returns the screen, or how long to wait for it.
func (d *display) look() (text string, size handle.Screen, wait time.Duration, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	switch {
	case d.since.IsZero() && d.drained:
		d.wake() // for a further Next
		return "", size, 0, io.EOF
	case d.since.IsZero():
		return "", size, forever, nil
	case !d.drained:
		due := d.last.Add(d.quiet)
		if latest := d.since.Add(patience * d.quiet); latest.Before(due) {
			due = latest
		}
		if wait := due.Sub(now); wait > 0 {
			return "", size, wait, nil
		}
	}
	d.since = time.Time{}
	text, size = d.screen.show()
	return text, size, 0, nil
}

func (d *display) wake() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// Type sends keys, all or none.
func (d *display) Type(keys []handle.Key) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.screen.press(keys)
}
