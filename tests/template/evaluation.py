"""What a stack with given parameters would be: conditions decided, rules checked, resources left out.

Only the functions that the template's Rules and Conditions use; any other is an error, so that nothing passes unread.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.template.document import Document


@dataclass(frozen=True, slots=True)
class Stack:
    document: Document
    given: Mapping[str, str]

    def parameter(self, name: str) -> str:
        if name in self.given:
            return self.given[name]
        return str(self.document["Parameters"][name]["Default"])

    def value(self, node: Any) -> Any:
        """A node of Rules or Conditions, evaluated."""
        if not isinstance(node, dict):
            return [self.value(each) for each in node] if isinstance(node, list) else str(node)
        [(function, argument)] = node.items()
        match function:
            case "Ref":
                return self.parameter(argument)
            case "Condition":
                return self.condition(argument)
            case "Fn::Equals":
                left, right = (self.value(each) for each in argument)
                return left == right
            case "Fn::Not":
                return not self.value(argument[0])
            case "Fn::And":
                return all(self.value(each) for each in argument)
            case "Fn::Or":
                return any(self.value(each) for each in argument)
            case "Fn::Contains":
                members, wanted = argument
                return self.value(wanted) in self.value(members)
            case "Fn::If":
                condition, yes, no = argument
                return self.value(yes if self.condition(condition) else no)
            case "Fn::FindInMap":
                mapping, first, second = (self.value(each) for each in argument)
                return self.document["Mappings"][mapping][first][second]
            case _:
                raise AssertionError(f"{function} is not evaluated here")

    def condition(self, name: str) -> bool:
        return bool(self.value(self.document["Conditions"][name]))

    def violations(self) -> list[str]:
        """What CloudFormation answers instead of making the stack."""
        return [
            assertion["AssertDescription"]
            for rule in self.document["Rules"].values()
            if "RuleCondition" not in rule or self.value(rule["RuleCondition"])
            for assertion in rule["Assertions"]
            if not self.value(assertion["Assert"])
        ]

    def resources(self) -> set[str]:
        """Logical ids of what is made."""
        return {
            name
            for name, each in self.document["Resources"].items()
            if "Condition" not in each or self.condition(each["Condition"])
        }


def stack(document: Document, **given: str) -> Stack:
    unknown = set(given) - set(document["Parameters"])
    assert not unknown, f"no parameters of the template: {unknown}"
    return Stack(document, given)
