package runner

import (
	"errors"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// product is what an attempt came to, for the loop to show without reading the
// store. The attempt writes it before the commit of its outcome, since the loop
// may see the call settled at any moment from then on. The loop reads it.
type product struct {
	mu      sync.Mutex // guards the rest; held over nothing that waits
	ended   known      // how the call ended; zero: it has not
	entries entries
	actions []tool.Action
	failed  error // the runtime's failure, which is not the call's
	fatal   error // what ends the run
}

// entries are those of the tool's body.
type entries struct {
	unshown []int     // the attempts of those that the loop has not shown
	since   time.Time // of the last one
	ran     time.Duration
}

// enters notes that the body is entered.
func (p *product) enters(attempt int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entries = entries{unshown: append(p.entries.unshown, attempt), since: time.Now()}
}

// leaves notes that the body has returned.
func (p *product) leaves() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entries.ran = time.Since(p.entries.since)
}

// ran returns how long the body ran, in its last entry.
func (p *product) ran() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.entries.ran
}

// begun returns the attempts of the entries that were not shown, once.
func (p *product) begun() (attempts []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	attempts, p.entries.unshown = p.entries.unshown, nil
	return attempts
}

// ends notes how the call ends.
func (p *product) ends(k known) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = k
}

// made adds what the call made.
func (p *product) made(actions []tool.Action) {
	if len(actions) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.actions = append(p.actions, actions...)
}

// forget drops what there was to show: the commit has failed, and another one
// may have settled the call.
func (p *product) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.actions = known{}, nil
}

// fails notes a failure of the runtime.
func (p *product) fails(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = errors.Join(p.failed, err)
}

// endsRun notes what ends the run.
func (p *product) endsRun(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fatal = errors.Join(p.fatal, err)
}

// errors returns the runtime's failure, and what ends the run, once.
func (p *product) errors() (failed, fatal error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	failed, fatal, p.failed, p.fatal = p.failed, p.fatal, nil, nil
	return failed, fatal
}

// end returns how the call ended; zero: that is not known here.
func (p *product) end() known {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// take returns what the call made since it was last taken.
func (p *product) take() []tool.Action {
	p.mu.Lock()
	defer p.mu.Unlock()
	actions := p.actions
	p.actions = nil
	return actions
}
