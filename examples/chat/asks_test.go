package main

import (
	"fmt"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/llmtest"
	"github.com/fermata-ai/fermata/provider/anthropic"
	"github.com/fermata-ai/fermata/provider/gemini"
	"github.com/fermata-ai/fermata/provider/openai"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/ask"
)

// Every provider takes the tool that asks the user, whatever kinds it has, also
// where the model is held to its schema.
func TestEveryProviderTakesTheToolThatAsks(t *testing.T) {
	t.Parallel()
	models := map[string]llm.Model{
		"gemini": opened(gemini.New(gemini.Options{Model: "gemini-3.8-flash",
			APIKey: llmtest.APIKey}))(t),
	}
	for _, strict := range []bool{false, true} {
		o := openai.Options{Model: "gpt-5.6-terra", APIKey: llmtest.APIKey, Strict: strict}
		models[fmt.Sprint("openai.chat, ", strict)] = opened(openai.NewChat(o))(t)
		models[fmt.Sprint("openai.responses, ", strict)] = opened(openai.NewResponses(o))(t)
		models[fmt.Sprint("anthropic, ", strict)] = opened(anthropic.New(anthropic.Options{
			Model: "claude-sonnet-5-5", APIKey: llmtest.APIKey, Strict: strict}))(t)
	}
	for name, m := range models {
		for _, kinds := range [][]ask.Kind{nil, {ask.Clarification}, {ask.Decision},
			{ask.Information}, {ask.Confirmation}, {ask.Decision, ask.Information}} {
			asks, err := ask.User(&ask.Options{Kinds: kinds})
			if err != nil {
				t.Fatal(err)
			}
			_, err = agent.New(agent.Config{Name: "a", Model: m, Tools: []tool.Tool{asks}})
			if err != nil {
				t.Errorf("%s, %v: %v", name, kinds, err)
			}
		}
	}
}
