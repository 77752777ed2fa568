package runner

import (
	"errors"
	"sync"

	"github.com/fermata-ai/fermata/tool"
)

// product is what an attempt came to, for the loop to show without reading the
// store. The attempt writes it before the commit of its outcome, since the loop
// may see the call settled at any moment from then on. The loop reads it.
type product struct {
	mu      sync.Mutex // guards the rest; held over nothing that waits
	ended   known      // how the call ended; zero: it has not
	actions []tool.Action
	failed  error // the runtime's failure, which is not the call's
	fatal   error // what ends the run
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

// errors returns the runtime's failure, and what ends the run.
func (p *product) errors() (failed, fatal error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed, p.fatal
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
