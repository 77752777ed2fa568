package main

import (
	"os"
	"strings"
	"testing"
)

const (
	never  = "-step=1h"    // a deployment that goes on for ever
	slowly = "-step=300ms" // one whose progress can be seen
	atOnce = "-step=1ns"   // one that is over
)

// A question, an approval and a deployment, which wait side by side; and
// answers that don't fit.
func TestScriptedConversation(t *testing.T) {
	t.Parallel()
	db := file(t)
	c := talk(t, nil, "-file", db, "-session", "s1", slowly)
	c.sees(`^Model: a script; for a real one, set ANTHROPIC_API_KEY`,
		`^Session: s1, a new one, kept in the file .*\.db`)

	c.says("Good morning, weather in Oslo?")
	c.sees(`^  thinks  I need the result of get_weather`,
		`^  kept    message 1: the model's, with 1 call`, `^  calls   get_weather {"city":"Oslo"}`,
		`^  result  get_weather {"temp_c":3.5}`, `^It has 3.5 degrees in Oslo\.$`,
		`^  kept    message 3: the model's$`, `^  tokens `)

	c.says("refund order 1042 and deploy cart v1.0-rc1")
	c.sees(`^Where to: staging or production\?$`, `^  answer  one of: staging, production$`)
	c.says("staging")
	c.sees(`^  kept    the answer to ask_environment`,
		`^Why is order 1042 to be refunded\?$`, `^  answer  one of: damaged, late, unwanted$`)
	c.says("no idea")
	c.sees(`^  refused must be one of "damaged", "late", "unwanted", got "no idea"$`,
		`^Why is order 1042 to be refunded\?$`)
	c.says("damaged")
	c.sees(`^  kept    the answer to ask_user, by you$`,
		`^Refund 29\.00 € for order 1042 \(damaged\)\?$`)
	c.says("perhaps")
	c.sees(`^  refused neither yes nor no: `)
	c.says(`y {"order":"1042","cents":0,"reason":"damaged"}`)
	c.sees(`^  refused .*cents.*at least 1`, `^Refund 29\.00 €`)
	c.says(`y {"order":"1042","cents":1450,"reason":"damaged"}`)
	c.sees(`^  kept    the answer to refund, by you$`,
		`^  result  refund {"refund":"R-[0-9a-f]{8}","cents":1450}$`, `^Order 1042 is refunded\.$`,
		`^Deployed: https://cart.staging.example.com, after 0 s.$`)
	text := c.leaves()

	for _, waits := range []string{`refund waits for an approval, until`,
		`deploy waits for a job \(job-1\), until`} {
		if times(text, `(?m)^  kept    `+waits) != 1 {
			t.Errorf("there should be one line that %s:\n%s", waits, text)
		}
	}
	if !strings.Contains(text, "  job     [#####---------------]  25 %  deploy: build\n") {
		t.Errorf("there was no progress:\n%s", text)
	}
	if !strings.HasSuffix(text,
		"and 0 waiting calls. Go on with: go run ./examples/chat -session s1 -file "+db+"\n") {
		t.Errorf("it doesn't say how to go on:\n%s", text)
	}
	if n := times(text, `(?m)^  result  deploy `); n != 1 {
		t.Errorf("the result of deploy came %d times:\n%s", n, text)
	}
}

// Waiting calls are kept when the person leaves. The job ends meanwhile,
// delivers twice, and its result arrives once.
func TestLeavingWhileACallWaits(t *testing.T) {
	t.Parallel()
	db := file(t)
	c := talk(t, nil, "-file", db, "-session", "s1", never)
	c.says("deploy checkout v2.5.0 to production")
	c.sees(`^  kept    deploy waits for a job`)
	c.says("and now?")
	c.sees(`^  error   your message was not taken, since a call waits: deploy waits`)
	c.says("/pending")
	c.sees(`^  waits   deploy waits for a job \(job-1\)`)
	c.leaves()

	c = talk(t, nil, "-file", db, "-list")
	c.sees(`^s1 +paused, 2 messages, since`,
		`^ +deploy waits for a job \(job-1\), until .* \(call_`)
	c.ends()

	c = talk(t, nil, "-file", db, "-session", "s1", atOnce)
	c.sees(`^Session: s1, with 2 messages\.$`,
		`^  result  deploy {"url":"https://checkout.production.example.com"`,
		`^Deployed: https://checkout.production.example.com`, `^  tokens `)
	c.says("weather in Rome")
	c.sees(`^It has 3.5 degrees in Rome`)
	text := c.leaves()

	c = talk(t, nil, "-file", db, "-session", "s1", atOnce)
	c.sees(`^Session: s1, with 8 messages\.$`)
	c.says("/pending")
	c.sees(`^  waits   nothing$`)
	text += c.leaves()
	if n := times(text, `(?m)^  result  deploy `); n != 1 {
		t.Errorf("the result of deploy came %d times:\n%s", n, text)
	}
}

// A process that is killed on the spot leaves all that it has shown as kept.
func TestKilledWhileCallsWait(t *testing.T) {
	t.Parallel()
	db := file(t)
	c := talk(t, nil, "-file", db, "-session", "s1", never)
	c.says("deploy cart v3 to staging and refund order 1043")
	c.sees(`^Why is order 1043`)
	c.says("late")
	c.sees(`^Refund 12\.80 €`)
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()

	c = talk(t, nil, "-file", db, "-session", "s1", atOnce)
	c.sees(`^Refund 12\.80 €`)
	c.says("yes")
	c.sees(`^Order 1043 is refunded\.$`, `^Deployed: https://cart.staging.example.com`)
	if text := c.leaves(); times(text, `(?m)^  result  deploy `) != 1 ||
		times(text, `(?m)^  result  refund `) != 1 {
		t.Errorf("each result comes once:\n%s", text)
	}
}

// Several sessions are in one file; each goes on when it is opened.
func TestCancelAndFailAndSessionsSideBySide(t *testing.T) {
	t.Parallel()
	db := file(t)
	first := talk(t, nil, "-file", db, "-session", "s1", never)
	first.says("deploy cart v1 to staging")
	first.sees(`^  kept    deploy waits`)
	first.leaves()

	c := talk(t, nil, "-file", db, "-session", "s2", atOnce) // where the job of s1 ends
	c.says("deploy cart v0.1 to staging")
	c.sees(`^  result  deploy "Failed: there is no build of cart v0.1\." \(failed\)$`,
		`^It is not deployed\. Failed: there is no build`)
	c.says("refund 1041")
	c.sees(`^Why is order 1041`)
	c.says("/cancel ask_user not today")
	c.sees(`^  kept    the cancellation of ask_user, by you$`,
		`^  result  ask_user .*not today.* \(cancelled\)$`, `^Nothing is refunded\.`)
	c.says("order 7")
	c.sees(`^I can't find it\. .*there is no order 7; there are 1041, 1042 and 1043`)
	c.says("/cancel nothing")
	c.sees(`^  error   no call waits whose id or tool is "nothing"`)
	c.says("/nope")
	c.sees(`^  error   there is no command /nope`)
	c.says(" /help is what I say")
	c.sees(`^You said " /help is what I say"`)
	if text := c.leaves(); strings.Contains(text, "https://cart.staging") {
		t.Errorf("it shows what belongs to another session:\n%s", text)
	}

	first = talk(t, nil, "-file", db, "-session", "s1", atOnce)
	first.sees(`^  result  deploy {"url":"https://cart.staging.example.com"`, `^Deployed:`)
	first.leaves()
}

// The end of the input is the end of the program, also while calls wait.
func TestTheInputEnds(t *testing.T) {
	t.Parallel()
	db := file(t)
	c := talk(t, nil, "-file", db, "-session", "s1", never)
	c.says("refund order 1043")
	text := c.ends()
	if !strings.Contains(text, "Why is order 1043") ||
		!strings.HasSuffix(text,
			"1 waiting call. Go on with: go run ./examples/chat -session s1 -file "+db+"\n") {
		t.Errorf("it shows\n%s", text)
	}
}

func TestNothingWasSaid(t *testing.T) {
	t.Parallel()
	db := file(t)
	if text := talk(t, nil, "-file", db).ends(); strings.Contains(text, "Kept") ||
		!strings.Contains(text, "Session: chat-") {
		t.Errorf("it shows\n%s", text)
	}
	if text := talk(t, nil, "-file", db, "-list").ends(); text != "There are no sessions.\n" {
		t.Errorf("the list is\n%s", text)
	}
}

// The model is the one that the flags name, or that the environment has a key
// for; every provider takes the tools.
func TestWhoAnswers(t *testing.T) {
	t.Parallel()
	const anthropic, openai, gemini, google = "ANTHROPIC_API_KEY=k", "OPENAI_API_KEY=k",
		"GEMINI_API_KEY=k", "GOOGLE_API_KEY=k"
	for _, test := range []struct {
		env  []string
		args []string
		says string
	}{
		{[]string{gemini, openai, anthropic}, nil, "anthropic, claude-sonnet-5-5"},
		{[]string{gemini, openai}, nil, "openai, gpt-5.6-terra"},
		{[]string{google}, nil, "gemini, gemini-3.8-flash"},
		{[]string{openai, "OPENAI_BASE_URL=http://localhost:11434/v1"}, []string{"-model", "qwen3"},
			"openai-chat, qwen3"},
		{[]string{openai}, []string{"-provider", "openai-chat"}, "openai-chat, gpt-5.6-terra"},
		{[]string{anthropic, gemini},
			[]string{"-provider", "gemini", "-model", "gemini-3.5-flash", "-reasoning"},
			"gemini, gemini-3.5-flash"},
		{[]string{anthropic}, []string{"-reasoning"}, "anthropic, claude-sonnet-5-5"},
		{[]string{openai}, []string{"-reasoning"}, "openai, gpt-5.6-terra"},
		{[]string{anthropic}, []string{"-provider", "script"}, "a script"},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			text := talk(t, test.env, append([]string{"-file", file(t)}, test.args...)...).ends()
			if !strings.HasPrefix(text, "Model: "+test.says+".\n") {
				t.Errorf("it shows\n%s", text)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	damaged := file(t)
	if err := os.WriteFile(damaged, []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		env  []string
		args []string
		says string
	}{
		{"no such provider", nil, []string{"-provider", "acme"},
			`chat: there is no provider "acme": choose one of openai-chat, anthropic`},
		{"no key", nil, []string{"-provider", "anthropic"}, "ANTHROPIC_API_KEY"},
		{"no model", []string{"OPENAI_BASE_URL=http://localhost:11434/v1"}, nil, "add -model ID"},
		{"no model, with a key",
			[]string{"OPENAI_BASE_URL=http://localhost:11434/v1", "OPENAI_API_KEY=k"},
			[]string{"-provider", "openai"}, "add -model ID"},
		{"a key with a line break", []string{"GEMINI_API_KEY=a\nb"}, nil,
			"gemini: the API key holds white space"},
		{"no such flag", nil, []string{"-nope"}, "flag provided but not defined: -nope"},
		{"a damaged file", nil, []string{"-file", damaged}, "chat: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			why := talk(t, test.env, append([]string{"-file", file(t)}, test.args...)...).fails()
			if !strings.Contains(why, test.says) || strings.Contains(why, "panic") {
				t.Errorf("it says %q, want %q", why, test.says)
			}
		})
	}
}

func TestTheFileIsInUse(t *testing.T) {
	t.Parallel()
	db := file(t)
	c := talk(t, nil, "-file", db)
	c.sees(`^Session`)
	if why := talk(t, nil, "-file", db).fails(); !strings.Contains(why,
		"another chat has the file open") {
		t.Errorf("it says %q", why)
	}
	c.leaves()
}
