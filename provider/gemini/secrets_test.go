package gemini

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm/llmtest"
)

func TestOptionsTellNoKey(t *testing.T) {
	const key = "AIza-in-options"
	o := Options{Model: "gemini-3-flash", APIKey: key, BaseURL: "http://ada:" + key + "@localhost"}
	_, err := New(o)
	if err == nil || strings.Contains(err.Error(), key) {
		t.Error(err)
	}
	o.BaseURL = "htp://ada:" + key + "@localhost"
	if _, err := New(o); err == nil || strings.Contains(err.Error(), key) {
		t.Error(err)
	}
	m, err := New(Options{Model: o.Model, APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{o, &o, struct{ Of Options }{o}, m, *m} {
		for how, text := range llmtest.Printed(v) {
			if strings.Contains(text, key) {
				t.Errorf("%s of a %T: %s", how, v, text)
			}
		}
	}
	if s := fmt.Sprint(o); !strings.Contains(s, "Model:gemini-3-flash") {
		t.Error(s)
	}
}
