// Judges a history of the key-value store with porcupine, which shares no code with our own checker.
//
//	histories [-page FILE] [-timeout 60s] HISTORY
//
// HISTORY has a line of JSON for each event: see tests/machine/histories/events.py. Each group of keys is judged by
// itself. It prints one line of JSON: how many groups and calls there were, and which groups no order explains
// ("refused") or were not decided in time ("undecided"). With -page it draws the first refused group.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type event struct {
	Process int             `json:"process"`
	Type    string          `json:"type"`
	F       string          `json:"f"`
	Value   json.RawMessage `json:"value"`
	Time    int64           `json:"time"`
}

// micro is one operation of a transaction: r, w or d, on the key "a" or "b" of the group.
type micro struct {
	kind  string
	key   int
	value text
}

// text is a value as JSON, "null" for a key that does not exist.
type text string

const absent = text("null")

// state is what both keys of a group hold.
type state [2]text

type condition struct {
	key   int
	value text
}

// call is what a client asked for.
type call struct {
	story      string
	conditions []condition
	then, last []micro
}

// told is what the client was answered; an open call was answered nothing.
type told struct {
	isOpen    bool
	succeeded *bool
	found     []text
	knows     bool // found is known
	deleted   *int
}

func step(before, input, output interface{}) (bool, interface{}) {
	now, asked, answer := before.(state), input.(call), output.(told)
	succeeded := true
	for _, one := range asked.conditions {
		succeeded = succeeded && now[one.key] == one.value
	}
	chosen := asked.last
	if succeeded {
		chosen = asked.then
	}
	after, found, deleted := now, []text{}, 0
	for _, one := range chosen {
		switch one.kind {
		case "r":
			found = append(found, now[one.key])
		case "w":
			after[one.key] = one.value
		case "d":
			if after[one.key] != absent {
				deleted++
			}
			after[one.key] = absent
		}
	}
	if answer.isOpen {
		return true, after
	}
	fits := answer.succeeded == nil || *answer.succeeded == succeeded
	fits = fits && (answer.deleted == nil || *answer.deleted == deleted)
	if answer.knows && fits {
		fits = len(answer.found) == len(found)
		for at := 0; fits && at < len(found); at++ {
			fits = answer.found[at] == found[at]
		}
	}
	return fits, after
}

var model = porcupine.Model{
	Init: func() interface{} { return state{absent, absent} },
	Step: step,
	DescribeOperation: func(input, output interface{}) string {
		if answer := output.(told); answer.isOpen {
			return input.(call).story + ": unknown"
		}
		return input.(call).story
	},
	DescribeState: func(now interface{}) string { return fmt.Sprint(now) },
}

func main() {
	page := flag.String("page", "", "draw the first refused group in this file")
	timeout := flag.Duration("timeout", time.Minute, "for each group")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: histories [-page FILE] [-timeout 60s] HISTORY")
	}
	groups, calls := read(flag.Arg(0))
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	sort.Strings(names)
	verdict := map[string]interface{}{"groups": len(groups), "calls": calls}
	refused, undecided := []string{}, []string{}
	for _, name := range names {
		switch porcupine.CheckOperationsTimeout(model, groups[name], *timeout) {
		case porcupine.Illegal:
			refused = append(refused, name)
		case porcupine.Unknown:
			undecided = append(undecided, name)
		}
	}
	if *page != "" && len(refused) > 0 {
		_, info := porcupine.CheckOperationsVerbose(model, groups[refused[0]], *timeout)
		must(porcupine.VisualizePath(model, info, *page))
	}
	verdict["refused"], verdict["undecided"] = refused, undecided
	must(json.NewEncoder(os.Stdout).Encode(verdict))
}

// read gives the calls of each group, without those that certainly were not applied, and their number.
func read(path string) (map[string][]porcupine.Operation, int) {
	file, err := os.Open(path)
	must(err)
	defer file.Close()
	groups, calls, waiting := map[string][]porcupine.Operation{}, 0, map[int]event{}
	add := func(asked event, answer *event) {
		name, operation := operationOf(asked, answer)
		groups[name] = append(groups[name], operation)
		calls++
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var found event
		must(json.Unmarshal(lines.Bytes(), &found))
		asked, isWaiting := waiting[found.Process]
		if isWaiting == (found.Type == "invoke") {
			log.Fatalf("process %d: %s does not follow what was before", found.Process, found.Type)
		}
		switch found.Type {
		case "invoke":
			waiting[found.Process] = found
		case "ok":
			delete(waiting, found.Process)
			add(asked, &found)
		case "fail":
			delete(waiting, found.Process)
		}
	}
	must(lines.Err())
	for _, asked := range waiting {
		add(asked, nil)
	}
	return groups, calls
}

func operationOf(asked event, answer *event) (string, porcupine.Operation) {
	var words []json.RawMessage
	must(json.Unmarshal(asked.Value, &words))
	name := unquoted(words[0])
	group := strings.SplitN(name, "/", 2)[0]
	result := words
	if answer != nil {
		must(json.Unmarshal(answer.Value, &result))
	}
	input, output := meaning(asked.F, name, words, result)
	input.story = asked.F + " " + string(asked.Value)
	operation := porcupine.Operation{
		ClientId: asked.Process, Input: input, Call: asked.Time, Output: told{isOpen: true}, Return: math.MaxInt64,
	}
	if answer != nil {
		input.story = asked.F + " " + string(answer.Value)
		operation.Input, operation.Output, operation.Return = input, output, answer.Time
	}
	return group, operation
}

// meaning says what a call does, and what its answer tells; for an open call the latter counts for nothing.
func meaning(f, name string, asked, answer []json.RawMessage) (call, told) {
	key := 0
	if strings.HasSuffix(name, "/b") {
		key = 1
	}
	switch f {
	case "read":
		return call{then: []micro{{kind: "r", key: key}}}, told{knows: true, found: []text{text(answer[1])}}
	case "write":
		return call{then: []micro{{kind: "w", key: key, value: text(asked[1])}}}, told{}
	case "delete":
		var deleted int
		must(json.Unmarshal(answer[1], &deleted))
		return call{then: []micro{{kind: "d", key: key}}}, told{deleted: &deleted}
	case "cas":
		var pair []json.RawMessage
		must(json.Unmarshal(asked[1], &pair))
		write := micro{kind: "w", key: key, value: text(pair[1])}
		input := call{conditions: []condition{{key, text(pair[0])}}, then: []micro{write}}
		if len(answer) < 3 {
			return input, told{}
		}
		var succeeded bool
		must(json.Unmarshal(answer[2], &succeeded))
		return input, told{succeeded: &succeeded}
	case "range":
		var both []text
		for _, value := range list(answer[1]) {
			both = append(both, text(value))
		}
		return call{then: []micro{{kind: "r", key: 0}, {kind: "r", key: 1}}}, told{knows: true, found: both}
	case "txn":
		return transaction(asked[1], answer[1])
	}
	log.Fatalf("%s is not a call of the store", f)
	return call{}, told{}
}

type branches struct {
	If        [][]json.RawMessage `json:"if"`
	Then      [][]json.RawMessage `json:"then"`
	Else      [][]json.RawMessage `json:"else"`
	Succeeded *bool               `json:"succeeded"`
	Deleted   *int                `json:"deleted"`
}

func transaction(asked, answer json.RawMessage) (call, told) {
	var words, result branches
	must(json.Unmarshal(asked, &words))
	must(json.Unmarshal(answer, &result))
	input := call{then: micros(words.Then), last: micros(words.Else)}
	for _, one := range words.If {
		input.conditions = append(input.conditions, condition{keyOf(one[0]), text(one[1])})
	}
	chosen := result.Then
	if result.Succeeded != nil && !*result.Succeeded {
		chosen = result.Else
	}
	output := told{succeeded: result.Succeeded, deleted: result.Deleted, knows: true}
	for _, one := range chosen {
		if unquoted(one[0]) == "r" {
			output.found = append(output.found, text(one[2]))
		}
	}
	return input, output
}

func micros(branch [][]json.RawMessage) []micro {
	var found []micro
	for _, one := range branch {
		each := micro{kind: unquoted(one[0]), key: keyOf(one[1])}
		if each.kind == "w" {
			each.value = text(one[2])
		}
		found = append(found, each)
	}
	return found
}

func keyOf(name json.RawMessage) int {
	if strings.HasSuffix(unquoted(name), "/b") {
		return 1
	}
	return 0
}

func list(raw json.RawMessage) []json.RawMessage {
	var found []json.RawMessage
	must(json.Unmarshal(raw, &found))
	return found
}

func unquoted(raw json.RawMessage) string {
	var found string
	must(json.Unmarshal(raw, &found))
	return found
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
