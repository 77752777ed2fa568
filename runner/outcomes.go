package runner

import (
	"encoding/json"
	"errors"
	"sync"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// outcomes are what bodies came back with, for the loop to show without reading it from the store.
type outcomes struct {
	mu    sync.Mutex
	known map[string]known
	err   error // the runtime failed, or a body ended the run
	fatal error
}

type known struct {
	status  event.Status
	output  json.RawMessage
	media   []llm.Media // of a settled call
	actions []tool.Action
	by      string
}

// put says how a call ended. What it made is kept.
func (o *outcomes) put(call string, k known) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k.actions = o.of(call).actions
	o.known[call] = k
}

// made adds what a call made, before the commit that has it.
func (o *outcomes) made(call string, actions []tool.Action) {
	if len(actions) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.of(call)
	k.actions = append(k.actions, actions...)
	o.known[call] = k
}

// of is what is known of a call, perhaps nothing, for whoever goes on to change it.
func (o *outcomes) of(call string) known {
	if o.known == nil {
		o.known = map[string]known{}
	}
	return o.known[call]
}

// forget drops what is known of a call whose commit failed: somebody else may have settled it.
func (o *outcomes) forget(call string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, call)
}

func (o *outcomes) get(call string) (known, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k, ok := o.known[call]
	return k, ok && k.status != ""
}

// takeActions returns what a call made since it was last asked.
func (o *outcomes) takeActions(call string) []tool.Action {
	o.mu.Lock()
	defer o.mu.Unlock()
	k, ok := o.known[call]
	if ok && len(k.actions) > 0 {
		o.known[call] = known{status: k.status, output: k.output, media: k.media, by: k.by}
	}
	return k.actions
}

func (o *outcomes) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.known)
}

func (o *outcomes) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = errors.Join(o.err, err)
}

func (o *outcomes) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *outcomes) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fatal = errors.Join(o.fatal, err)
}

func (o *outcomes) fatality() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fatal
}
