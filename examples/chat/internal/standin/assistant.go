// Package standin stands in for a model in the chat: a script. Like a model it
// goes by the session's messages alone, and so is the same in every process.
package standin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
)

// Assistant understands wishes such as "deploy checkout v2.5.0 to staging",
// "weather in Oslo", "order 1042" and "refund order 1042", several in one
// message. It calls the tools deploy, ask_environment, get_weather, get_order,
// ask_user and refund.
var Assistant llm.Model = fakellm.New(fakellm.From(assist).Forever())

var (
	words = regexp.MustCompile(
		`(?i)deploy\s+(\S+)\s+(v\d+(?:[.-]\w+)*)(?:\s+to\s+(staging|production))?|$`)
	city     = regexp.MustCompile(`(?i)weather\s+(?:is\s+it\s+)?in\s+(\pL+)`)
	refunded = regexp.MustCompile(`(?i)refund\s+(?:order\s+)?(\d+)`)
	ordered  = regexp.MustCompile(`(?i)order\s+(\d+)`)
)

// The groups of words.
const service, version, environment = 1, 2, 3

// conversation is what has followed the user's last message.
type conversation struct {
	said    string
	results map[string]llm.ToolResult // by the tool's name
	turn    fakellm.Turn              // the calls that are to be made
	calls   int
	asks    bool // they are such as tell what is to be done
	report  []string
}

// assist calls the tools that the message asks for, as far as the results so
// far allow, and reports when nothing is left to call.
func assist(r llm.Request) fakellm.Turn {
	c := &conversation{said: fakellm.LastUserText(r), results: map[string]llm.ToolResult{}}
	for _, m := range r.Messages {
		if m.Role == llm.RoleUser {
			clear(c.results)
		}
		for _, p := range m.Parts {
			if res, ok := p.(llm.ToolResult); ok {
				c.results[res.Name] = res
			}
		}
	}
	c.weather(city.FindStringSubmatch(c.said))
	c.order(refunded.FindStringSubmatch(c.said), ordered.FindStringSubmatch(c.said))
	c.deploy(words.FindStringSubmatch(c.said))
	turn := c.turn
	switch {
	case c.calls > 0:
	case len(c.report) > 0:
		turn = turn.Says(strings.Join(c.report, "\n"))
	default:
		turn = turn.Says(
			fmt.Sprintf("You said %q. I am a script, and understand these: deploy SERVICE "+
				"VERSION [to staging or production], "+
				"weather in CITY, order NUMBER, refund order NUMBER. Several may stand in "+
				"one message.", c.said))
	}
	return turn.Chunks(8).Delay(0, 10*time.Millisecond)
}

// call adds a call of a tool, or returns the call's result if it has one.
// Arguments are pairs of a name and a value.
func (c *conversation) call(tool string, args ...any) (result llm.ToolResult, done bool) {
	if result, done = c.results[tool]; done {
		return result, true
	}
	object := map[string]any{}
	for i := 0; i < len(args); i += 2 {
		object[args[i].(string)] = args[i+1]
	}
	text, _ := json.Marshal(object)
	if c.calls == 0 {
		c.turn = c.turn.Reasons(fmt.Sprintf("I need the result of %s to go on.", tool))
	}
	c.turn = c.turn.And(tool, string(text))
	c.calls++
	c.asks = c.asks || tool != "refund"
	return result, false
}

// say adds to the report: what went wrong, or else what came out.
func (c *conversation) say(wrong string, result llm.ToolResult, format string, args ...any) {
	if result.Error {
		var why string
		_ = json.Unmarshal(result.Output, &why)
		c.report = append(c.report, wrong+" "+why)
		return
	}
	c.report = append(c.report, fmt.Sprintf(format, args...))
}

func (c *conversation) deploy(wish []string) {
	if wish[service] == "" {
		return
	}
	where := strings.ToLower(wish[environment])
	if where == "" {
		answer, done := c.call("ask_environment")
		if !done {
			return
		}
		if answer.Error {
			c.say("It is not deployed.", answer, "")
			return
		}
		_ = json.Unmarshal(answer.Output, &where)
	}
	if _, begun := c.results["deploy"]; c.asks && !begun {
		return // what takes long comes last, beside the refund
	}
	result, done := c.call("deploy",
		"service", wish[service], "version", wish[version], "environment", where)
	if done {
		var live struct {
			URL     string
			Seconds int
		}
		_ = json.Unmarshal(result.Output, &live)
		c.say("It is not deployed.", result, "Deployed: %s, after %d s.", live.URL, live.Seconds)
	}
}

func (c *conversation) weather(wish []string) {
	if wish == nil {
		return
	}
	if result, done := c.call("get_weather", "city", wish[1]); done {
		var now struct {
			TempC float64 `json:"temp_c"`
		}
		_ = json.Unmarshal(result.Output, &now)
		c.say("I don't know the weather.", result, "It has %.1f degrees in %s.", now.TempC, wish[1])
	}
}

func (c *conversation) order(refund, order []string) {
	wish := refund
	if wish == nil {
		wish = order
	}
	if wish == nil {
		return
	}
	result, done := c.call("get_order", "order", wish[1])
	if !done {
		return
	}
	var found struct {
		Item, Status string
		Cents        int
	}
	_ = json.Unmarshal(result.Output, &found)
	if refund == nil || result.Error {
		c.say("I can't find it.", result, "Order %s is %s, %s.", wish[1], found.Item, found.Status)
		return
	}
	reasons := []string{"damaged", "late", "unwanted"}
	reason, done := c.call("ask_user",
		"question", "Why is order "+wish[1]+" to be refunded?", "choices", reasons)
	if !done {
		return
	}
	if reason.Error {
		c.say("Nothing is refunded.", reason, "")
		return
	}
	var why string
	_ = json.Unmarshal(reason.Output, &why)
	paid, done := c.call("refund", "order", wish[1], "cents", found.Cents, "reason", why)
	if done {
		c.say("Nothing is refunded.", paid, "Order %s is refunded.", wish[1])
	}
}
