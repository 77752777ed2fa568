package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/examples/chat/internal/standin"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/provider/anthropic"
	"github.com/fermata-ai/fermata/provider/gemini"
	"github.com/fermata-ai/fermata/provider/openai"
)

// model is the model that answers, and its name on the screen.
type model struct {
	llm  llm.Model
	name string
	key  string // the variable that the key is in
}

// provider is a way to open a model.
type provider struct {
	name  string
	vars  []string // variables of the environment that choose it
	model string   // the default
	open  func(id string, reasoning bool) (llm.Model, error)
}

// providers are tried in this order.
var providers = []provider{
	{"openai-chat", []string{"OPENAI_BASE_URL"}, "gpt-5.6-terra", openChat},
	{"anthropic", []string{"ANTHROPIC_API_KEY"}, "claude-sonnet-5-5", openAnthropic},
	{"openai", []string{"OPENAI_API_KEY"}, "gpt-5.6-terra", openResponses},
	{"gemini", []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, "gemini-3.8-flash", openGemini},
	{"script", nil, "", func(string, bool) (llm.Model, error) { return standin.Assistant, nil }},
}

func names() (all []string) {
	for _, p := range providers {
		all = append(all, p.name)
	}
	return all
}

// choose returns the model of the provider that the flags name, or of the first
// that the environment has a variable of.
func choose(o options) (m model, err error) {
	i := slices.IndexFunc(providers, func(p provider) bool {
		return p.name == o.provider || o.provider == "" && (p.vars == nil || p.set() != "")
	})
	if i < 0 {
		return m, fmt.Errorf("there is no provider %q: choose one of %s",
			o.provider, strings.Join(names(), ", "))
	}
	p := providers[i]
	id := cmp.Or(o.model, p.model)
	if strings.HasPrefix(p.name, "openai") && o.model == "" && compatible() {
		return m, errors.New(
			"OPENAI_BASE_URL names a server of its own, and not which of its models to use: add " +
				"-model ID")
	}
	m.name, m.key = p.name+", "+id, p.set()
	switch {
	case p.name == "openai-chat":
		m.key = "OPENAI_API_KEY"
	case p.name == "script" && o.provider == "":
		m.name = "a script; for a real one, set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY"
	case p.name == "script":
		m.name = "a script"
	}
	m.llm, err = p.open(id, o.reasoning)
	return m, err
}

// set returns the provider's variable that the environment has, "" if it has
// none.
func (p provider) set() string {
	for _, k := range p.vars {
		if os.Getenv(k) != "" {
			return k
		}
	}
	return ""
}

// compatible reports whether OPENAI_BASE_URL names a server that isn't OpenAI's
// own.
func compatible() bool {
	base := os.Getenv("OPENAI_BASE_URL")
	u, err := url.Parse(base)
	return base != "" && (err != nil || !strings.HasSuffix("."+u.Hostname(), ".openai.com"))
}

func openAnthropic(id string, reasoning bool) (llm.Model, error) {
	o := anthropic.Options{Model: id}
	if reasoning {
		o.Thinking = anthropic.Thinking{Type: "adaptive", Display: "summarized"}
	}
	return anthropic.New(o)
}

func openResponses(id string, reasoning bool) (llm.Model, error) {
	o := openai.Options{Model: id}
	if reasoning {
		o.Responses.Summary = "auto"
	}
	return openai.NewResponses(o)
}

// openChat has nothing to ask for reasoning with: servers that send it do so by
// themselves.
func openChat(id string, _ bool) (llm.Model, error) {
	return openai.NewChat(openai.Options{Model: id})
}

func openGemini(id string, reasoning bool) (llm.Model, error) {
	return gemini.New(gemini.Options{Model: id, Thinking: gemini.Thinking{Include: reasoning}})
}
