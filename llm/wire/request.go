package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/llm"
)

// CheckRequest reports the first thing in a request that no provider can be
// told, wherever the adapter would put it: a tool choice, a cache hint, a
// limit, or the name of a response format. What one provider alone doesn't take
// is its adapter's to report. served are the names of tools that the provider
// runs itself.
func CheckRequest(r llm.Request, served ...string) error {
	if err := checkChoice(r, served); err != nil {
		return err
	}
	switch r.Cache {
	case llm.CacheDefault, llm.CacheNone, llm.CacheShort, llm.CacheLong:
	default:
		return fmt.Errorf("Request.Cache is %q: it must be empty, %q, %q or %q", r.Cache,
			llm.CacheNone, llm.CacheShort, llm.CacheLong)
	}
	if n := r.Limits.OutputTokens; n < 0 {
		return fmt.Errorf("Request.Limits.OutputTokens is %d: it must not be negative; 0 leaves it to the provider", n)
	}
	if f := r.ResponseFormat; len(f.Schema) > 0 && f.Name != "" && !formatNames.Fits(f.Name) {
		return fmt.Errorf("Request.ResponseFormat.Name is %.80q: it must be 1 to %d letters, digits, _ and -, or empty", f.Name, formatNames.Max)
	}
	return nil
}

// formatNames are what OpenAI takes; the others have no place for such a name,
// or take any.
var formatNames = Form{Max: 64, Also: "_-"}

func checkChoice(r llm.Request, served []string) error {
	c := r.ToolChoice
	names := slices.Clone(served)
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	switch c.Mode {
	case llm.ToolAuto, llm.ToolNone:
	case llm.ToolAny:
		if len(names) == 0 {
			return fmt.Errorf("Request.ToolChoice.Mode is %q, and Request.Tools is empty: offer a tool, or leave the mode empty", c.Mode)
		}
	case llm.ToolNamed:
		if !slices.Contains(names, c.Name) {
			return fmt.Errorf("Request.ToolChoice.Name is %q, which is none of Request.Tools: name one of them%s", c.Name, listed(names))
		}
	default:
		return fmt.Errorf("Request.ToolChoice.Mode is %q: it must be empty, %q, %q or %q", c.Mode,
			llm.ToolNone, llm.ToolAny, llm.ToolNamed)
	}
	return nil
}

// listed are some names, to choose from.
func listed(names []string) string {
	const most = 8
	if len(names) == 0 || len(names) > most {
		return ""
	}
	return ", " + strings.Join(names, ", ")
}

// Response returns the schema of a response format in the dialect, nil where
// the text is free.
func (d Dialect) Response(f llm.ResponseFormat) (json.RawMessage, error) {
	if len(f.Schema) == 0 {
		return nil, nil
	}
	schema, err := d.Convert(f.Schema)
	if err != nil {
		return nil, fmt.Errorf("Request.ResponseFormat %q: %w", f.Name, err)
	}
	return schema, nil
}
