// Package agent has an agent's static side: a model, instructions, tools,
// interceptors and limits, checked once by [New].
//
// It keeps nothing between calls and knows no sessions: package runner does the
// rest.
package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Config describes an agent. Model is required.
type Config struct {
	// Name is stored with each session; a session is driven only by an agent of
	// that name. A program that renames an agent leaves its old sessions
	// waiting, unless an agent of the old name is among runner.Options.Agents.
	Name  string
	Model llm.Model
	// Inquirer, perhaps a cheaper model, is asked beside the conversation: what a
	// call of the turn wants to know of its model, and what is to become of
	// handles that are open when the model would end its turn; nil: Model is.
	Inquirer     llm.Model
	Instructions string
	Tools        []tool.Tool
	Interceptors interceptor.Chain
	Limits       Limits
	Retry        Retry
	// Concurrency is how many tool calls of a turn run at once; default 4.
	Concurrency int
	// ToolChoice and ModelLimits bound the model's answers; the zero values leave
	// them to the provider.
	ToolChoice  llm.ToolChoice
	ModelLimits llm.Limits
	// ResponseFormat and Cache are passed on to the model.
	ResponseFormat llm.ResponseFormat
	Cache          llm.Cache
	// ToolLimits bound arguments and results.
	ToolLimits tool.Limits
	// OneMessage: a session takes one message of its user, with which it begins.
	// A further one is session.ErrInvalidMessage, unless it answers a question.
	OneMessage bool
}

// Limits bound one run, from a message of the user to the model's final answer,
// over pauses too. When a limit is reached, the run ends with its own
// event.Finish; Continue or the next message goes on with fresh limits.
type Limits struct {
	Turns     int // model calls; 0: 64
	ToolCalls int // 0: no limit
	Tokens    int // input and output together, as the model reports them; 0: no limit
	// Message bounds one message of the model, in bytes, as it streams; 0: 16
	// MiB. A longer one is not stored.
	Message int
}

// Retry is how a model is called again after a failure that may pass: a rate
// limit, an overload, a network that broke. The waiting time doubles from First
// to Most, is shortened by chance by up to a half, and is never less than the
// provider asked for.
type Retry struct {
	Failures int           // in a row, after which the run fails; 0: 6; negative: it fails at once
	First    time.Duration // 0: 1 s
	Most     time.Duration // 0: 1 min
	// Patience is for how long, from the first failure in a row, the model is
	// called again however often it fails: 72 hours, say, to outlast a
	// provider's bad weekend, best with a Most of many minutes. 0: Failures
	// alone decide.
	Patience time.Duration
	// Hold is the longest wait for which a drive keeps its session. Before a
	// longer one, such as a provider may ask for, the drive ends with
	// event.FinishDelayed, and a worker, or Continue, goes on when it is over.
	// 0: 5 min.
	Hold time.Duration
}

// Agent is made by New and does not change. It is safe for use from many
// goroutines.
type Agent struct {
	handle
	config Config
	given  Config // to New, with slices of its own
}

// handle hands the core over to the runner.
type handle = hold.Handle[*agentcore.Core]

// New returns the agent of a configuration, or the error of what is wrong with
// it. It copies the slices, and asks each tool for its Spec once.
func New(c Config) (*Agent, error) {
	if c.Model == nil {
		return nil, errors.New(
			"agent: Config.Model is nil; give it a model, or fakellm.Echo() to try things out")
	}
	if c.Concurrency < 0 || c.Limits.Turns < 0 || c.Limits.ToolCalls < 0 || c.Limits.Tokens < 0 ||
		c.Limits.Message < 0 {
		return nil, errors.New(
			"agent: Config has a negative limit, in Concurrency or Limits; zero is the default")
	}
	if c.Concurrency == 0 {
		c.Concurrency = 4
	}
	if c.Limits.Turns == 0 {
		c.Limits.Turns = 64
	}
	if c.Limits.Message == 0 {
		c.Limits.Message = 16 << 20
	}
	if c.Retry.Patience < 0 || c.Retry.Hold < 0 {
		return nil, errors.New("agent: Config.Retry has a negative Patience or Hold")
	}
	if m, ok := c.Model.(llm.Retrier); ok && m.Retries() > 0 &&
		(c.Retry.Failures >= 0 || c.Retry.Patience > 0) {
		return nil, fmt.Errorf(
			"agent %q: its model asks again up to %d times by itself, and the agent calls it "+
				"again, too: the tries multiply; "+
				"leave the model's option Retries at 0, or set Config.Retry.Failures to -1, and "+
				"no Patience", c.Name, m.Retries())
	}
	if !utf8.ValidString(c.Instructions) {
		return nil, fmt.Errorf("agent %q: Config.Instructions is not valid UTF-8", c.Name)
	}
	if s := c.ResponseFormat.Schema; !bytes.Equal(modeltext.CleanJSON(s), s) {
		return nil, fmt.Errorf(
			"agent %q: Config.ResponseFormat.Schema has invalid UTF-8, or an escape of half a "+
				"surrogate pair", c.Name)
	}
	c.Retry = c.Retry.defaults()
	given := c.own()
	c = given.withAwait()
	registry, err := tool.NewRegistry(c.Tools, &c.ToolLimits)
	if err != nil {
		return nil, fmt.Errorf("agent %q: %w", c.Name, err)
	}
	tools := toolbox.Open(registry)
	if err := c.Interceptors.Check(tools.Names()); err != nil {
		return nil, fmt.Errorf("agent %q: %w", c.Name, err)
	}
	if err := checkSchemas(tools, c.Interceptors); err != nil {
		return nil, fmt.Errorf("agent %q: %w", c.Name, err)
	}
	if model, ok := c.Model.(llm.ToolChecker); ok {
		if err := model.CheckTools(tools.Defs()); err != nil {
			return nil, fmt.Errorf("agent %q: %w", c.Name, err)
		}
	}
	return &Agent{hold.New(&agentcore.Core{
		Tools:       tools,
		Concurrency: c.Concurrency,
		Layers:      c.Interceptors,
		Model:       c.Interceptors.WrapModel(c.Model.Generate),
		Inquirer:    c.Interceptors.WrapModel(cmp.Or(c.Inquirer, c.Model).Generate),
		Request: llm.Request{
			System:         c.Instructions,
			Tools:          tools.Defs(),
			ToolChoice:     c.ToolChoice,
			Limits:         c.ModelLimits,
			ResponseFormat: c.ResponseFormat,
			Cache:          c.Cache,
		},
	}), c, given}, nil
}

// With returns an agent that is as this one, but for its name and its model.
func (a *Agent) With(name string, m llm.Model) (*Agent, error) {
	c := a.given
	c.Name, c.Model = name, m
	return New(c)
}

// own returns the configuration with slices of its own: the agent keeps its
// gates, whatever its maker does to those slices later.
func (c Config) own() Config {
	c.Tools, c.Interceptors = slices.Clone(c.Tools), slices.Clone(c.Interceptors)
	for i := range c.Interceptors {
		c.Interceptors[i].Tools = slices.Clone(c.Interceptors[i].Tools)
	}
	c.ResponseFormat.Schema = bytes.Clone(c.ResponseFormat.Schema)
	return c
}

// checkSchemas returns the error of a tool whose schema is too long to be kept
// with a pause, so that its calls could not wait.
func checkSchemas(tools *toolbox.Box, layers interceptor.Chain) error {
	for _, name := range tools.Names() {
		spec, _ := tools.Spec(name)
		checks := tools.Checks(name) // which are kept
		const keep = "tool %q: its %s schema has %d bytes, and at most %d can be kept with a " +
			"pause; %s"
		switch {
		case len(checks.Output) > tool.MaxSchema && (spec.MayPause || spec.AskOperator):
			return fmt.Errorf(keep, name, "output", len(checks.Output), tool.MaxSchema,
				"shorten it, or let the tool check its output itself")
		case len(checks.Input) > tool.MaxSchema && layers.Wraps(name):
			return fmt.Errorf(keep, name, "input", len(checks.Input), tool.MaxSchema,
				"shorten it, or name the tools of each layer in Layer.Tools, without this one")
		}
	}
	return nil
}

func (r Retry) defaults() Retry {
	switch {
	case r.Failures == 0:
		r.Failures = 6
	case r.Failures < 0:
		r.Failures = 0
	}
	if r.First <= 0 {
		r.First = time.Second
	}
	if r.Most <= 0 {
		r.Most = time.Minute
	}
	if r.Hold == 0 {
		r.Hold = 5 * time.Minute
	}
	return r
}

// Name returns the agent's name, as stored with its sessions.
func (a *Agent) Name() string { return a.config.Name }

// OneMessage reports whether a session takes one message alone.
func (a *Agent) OneMessage() bool { return a.config.OneMessage }

// Limits returns the agent's limits, defaults filled in.
func (a *Agent) Limits() Limits { return a.config.Limits }

// Retry returns how the model is called again after it failed, defaults filled
// in.
func (a *Agent) Retry() Retry { return a.config.Retry }

// withAwait returns a configuration in which the model can wait for what tools
// of package tool/handle begin, if there are any, and is told how.
func (c Config) withAwait() Config {
	stateful := func(t tool.Tool) bool {
		if t == nil {
			return false
		}
		_, acts := tool.As[interface {
			Acts(json.RawMessage) (action, handle string)
		}](t)
		_, waits := tool.As[interface{ WaitHandles() }](t) // of package tool/wait
		return acts && !waits
	}
	if !slices.ContainsFunc(c.Tools, stateful) {
		return c
	}
	c.Tools = append(slices.Clip(c.Tools), handles.NewAwait())
	if c.Instructions != "" {
		c.Instructions += "\n\n"
	}
	c.Instructions += handles.Guidance
	return c
}
